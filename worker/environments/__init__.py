"""Builds environments from wheels only. No code of a package is imported, compiled or run outside a sandbox.

requirements       checks the packages that are asked for
uv                 resolves, downloads and unpacks wheels with the program uv
data_zip           checks and unpacks the data of a project beside the packages, a zip file
installed_files    cleans, measures and packs the unpacked files
bytecode           has the modules compiled in a sandbox, and writes what comes back
compiler           the grader that compiles them there
build_steps        the steps of one build
builder            the thread of a worker that makes builds
environment_cache  environments of one machine, without a service
package_isolation  the isolation of graders with packages that never run text that they receive
settings           whether environments may be built, from which index, and of what
"""
