"""Takes submissions from the queue, gives each a lane with a judge, and writes down the facts. It decides no verdict."""
