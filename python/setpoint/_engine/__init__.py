"""The operator of a script: handlers, how they are declared to Setpoint, and their calls."""
