"""Barriers between the supersteps of a parallel job, and the tasks that work between them. Knows its own room alone.

A coordinator opens steps and tasks report them, through a board that both can reach: ZooKeeper or the API server.
kazoo is loaded by `zookeeper.py` alone: tasks that meet on the API server need the standard library and no more.
"""
