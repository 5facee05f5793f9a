"""Headers that let a torch extension compile in a tenth of the time, and headers that are compiled beforehand."""
