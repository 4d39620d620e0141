# Read by ctest: what all tests find in their environment. CTest runs as many tests at once as there are cores, and the
# threads of a test that wait for each other must not spin on the cores that the others need (base/process/environment.h).
set(ENV{GOMP_SPINCOUNT} 1000)
# Python compiles a package once, not in every process.
set(ENV{PYTHONDONTWRITEBYTECODE} "")
# MPI need not look for fast networks, which takes 0.2 s a start: the ranks of a machine meet in shared memory.
set(ENV{OMPI_MCA_pml} ob1)
set(ENV{OMPI_MCA_btl} self,vader,tcp)
