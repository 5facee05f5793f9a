"""Fleets: where the lanes are.  `local` has this host's; nothing above knows more than `grade`."""
