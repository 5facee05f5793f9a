// Names the status, for declarations; a source that uses the library gets its own header.
#pragma once
enum cusolverStatus_t : int;
