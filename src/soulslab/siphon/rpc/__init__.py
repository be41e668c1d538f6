"""The same session over gRPC: server, client, and the public Siphon protocol."""
