# cmake --install: the headers, the library with its package file, the command and the recipes.
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/plumb)

install(DIRECTORY include/plumb DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY recipes DESTINATION ${CMAKE_INSTALL_DATADIR}/plumb OPTIONAL)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(TARGETS plumb)
install(TARGETS plumb_shared EXPORT plumb)
install(EXPORT plumb NAMESPACE plumb:: FILE plumbConfig.cmake DESTINATION ${package_folder})
write_basic_package_version_file(plumbConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/plumbConfigVersion.cmake DESTINATION ${package_folder})
