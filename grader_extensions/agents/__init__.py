"""What coding agents use: `grader-cli mcp`, and the page that `grader-cli init --skill` writes."""
