"""Environments are built here, from wheels alone: nothing of a package is imported, compiled or run outside a sandbox.

requirements  what may be asked for
uv            resolves, downloads and unpacks, by the program of that name
data          what a project wants beside packages: a zip file, checked and unpacked
contents      what stays of it, within which bounds, and how it is packed
bytecode      compiles it, inside a sandbox
build         the steps of one build
builder       the thread of a worker that makes builds
cached        environments of one machine, without a service
known         which packages never run what they are given as text
"""
