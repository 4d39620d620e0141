# dotresize_warnings(TARGET): warnings as errors, for our own code (generated and foreign code is exempt).
# -Wno-maybe-uninitialized: with -O1 g++ 12 warns of std::optional.
function(dotresize_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Werror
    -Wno-maybe-uninitialized)
endfunction()
