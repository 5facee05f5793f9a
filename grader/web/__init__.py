"""The web port: metrics, health, and pages for people.  Reads only; nothing is changed through it. Off unless `--web` asks for it."""
