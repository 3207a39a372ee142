"""Processes that work through many jobs side by side. One that dies is named for its job, which is tried once more."""

from roller_capture.pool.engine import THIS_PROCESS, Engine, Workers
from roller_capture.pool.jobs import Job, Pool
from roller_capture.pool.process_pool import ProcessPool
from roller_capture.pool.worker import Ask, RefusedError, Task

__all__ = ["THIS_PROCESS", "Ask", "Engine", "Job", "Pool", "ProcessPool", "RefusedError", "Task", "Workers"]
