"""Next to the device: builds, runs, verifies, measures.  Never imports grader."""
