"""Tools of coding agents: `grader-cli mcp`, and the page that `grader-cli init --skill` writes."""
