"""The server: HTTP, routes, and the life of the process. It knows nothing of Kopf."""
