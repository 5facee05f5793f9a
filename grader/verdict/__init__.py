"""From facts to a verdict, a reason and figures. Pure: no clock, no files, no device, nothing of the server."""
