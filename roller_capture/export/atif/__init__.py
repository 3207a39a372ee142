"""`export atif`: trajectories in Harbor's Agent Trajectory Interchange Format, subagents inside (docs/export.md)."""
