# dotresize_warnings(TARGET): warnings as errors, for our own code (generated and foreign code is exempt).
function(dotresize_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Werror)
endfunction()
