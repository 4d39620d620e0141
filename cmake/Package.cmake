# Files that `cmake --install` adds to the programs, and the .deb of `cpack`. libtorch is in neither: the programs look for it
# where it was when they were built, so build with -DLIBTORCH=DIR for a DIR that the machine has.
include(GNUInstallDirs)
install(FILES deploy/systemd/dotresize-server.service DESTINATION lib/systemd/system)
install(FILES deploy/systemd/dotresize.conf DESTINATION lib/sysusers.d)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)  # where Debian looks for it
install(DIRECTORY deploy/monitoring DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(FILES deploy/systemd/server.yaml DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(PROGRAMS deploy/launchers/slurm deploy/launchers/kubernetes deploy/launchers/ssh
        DESTINATION share/dotresize/launchers)
install(DIRECTORY deploy/slurm DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(DIRECTORY deploy/kubernetes DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "the operators of this machine <root@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Compresses language models by optimal transport")
set(CPACK_PACKAGE_DESCRIPTION
    "The coordinator dotresize-server, its MPI worker and the command line.\nlibtorch is not in it; the worker looks for it at\n${_libtorch_dir}/lib")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# Packages of Debian 12, which has the headers that this was compiled with.
set(CPACK_DEBIAN_PACKAGE_DEPENDS
    libabsl20220623 libc6 libcpp-httplib0.11 libctemplate3 libfmt9 libgomp1 libgrpc++1.51 libgrpc29 libhwy1 libopenmpi3
    libprometheus-cpp-core1.0 libprotobuf32 libspdlog1.10 libsqlite3-0 libssl3 libstdc++6 libyaml-cpp0.7 openmpi-bin
    systemd)
# The launchers in share/dotresize/launchers need Python.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS python3)
list(JOIN CPACK_DEBIAN_PACKAGE_DEPENDS ", " CPACK_DEBIAN_PACKAGE_DEPENDS)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/deploy/debian/postinst)
include(CPack)
