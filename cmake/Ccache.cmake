# Compile through ccache if it is installed. The sloppiness lets it cache users of precompiled headers; with
# CCACHE_DEPEND it does not preprocess what it compiles, a fifth of the time of a first build.
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_DEPEND=1 CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${CCACHE})
  add_compile_options(-fpch-preprocess)
endif()
