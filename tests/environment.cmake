# Read by ctest: what all tests find in their environment. CTest runs as many tests at once as there are cores, and the
# threads of a test that wait for each other must not spin on the cores that the others need (base/process/environment.h).
set(ENV{GOMP_SPINCOUNT} 1000)
# Python compiles a package once, not in every process.
set(ENV{PYTHONDONTWRITEBYTECODE} "")
