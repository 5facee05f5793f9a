"""The API as HTTP and JSON at the web port, made from the proto files: nothing here knows a method by its name."""
