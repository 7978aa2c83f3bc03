"""Setpoint for Python: handlers that the `setpoint` binary calls over HTTP.

A process of this package has no loop of its own. It declares its handlers, serves them on a socket,
and Setpoint watches, queues, retries and records.
"""
