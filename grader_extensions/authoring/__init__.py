"""Files that authors begin with: problems as they are read, files for new kernels, and the demo.  It grades nothing itself."""
