"""Builds environments from wheels only. No code of a package is imported, compiled or run outside a sandbox.

requirements  checks the requirements
uv            resolves, downloads and unpacks wheels with the program uv
data          checks and unpacks the data of a project beside the packages, a zip file
contents      cleans, measures and packs the unpacked files
bytecode      compiles the modules inside a sandbox
build         the steps of one build
builder       the thread of a worker that makes builds
cached        environments of one machine, without a service
known         packages that never run text that they receive
"""
