"""`gradebox doctor`: which layers of isolation are in force on this machine. Each is tried, not looked up.

kernel   what this machine's kernel lets this user do
inside   what code in a real sandbox can do, with any backend
engine   what a Docker engine can do, including gVisor
"""
