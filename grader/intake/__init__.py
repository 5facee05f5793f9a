"""What a submission has to be before it is taken: its files, its language, its entry point. It builds and stores nothing."""
