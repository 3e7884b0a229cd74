# Installs the libraries, their headers as <penstock/part/file.h>, the program, and what find_package(penstock) needs.
include(CMakePackageConfigHelpers)

set(penstock_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)
install(TARGETS penstock_pipeline penstock_asio penstock_cache penstock_gpu penstock_trainer penstock_all EXPORT penstock_targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS penstock_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY pipeline cache gpu trainer DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/penstock
        FILES_MATCHING PATTERN "*.h" PATTERN command EXCLUDE)
install(EXPORT penstock_targets NAMESPACE penstock:: DESTINATION ${penstock_package_folder})

# The libraries are static, so who links them needs what they link: each name in a part's link line is found again by the
# package's config file. A name that this table lacks is an error here, not at the user's.
set(penstock_find_Threads::Threads "find_dependency(Threads)")
set(penstock_find_TBB::tbb "find_dependency(TBB)")
set(penstock_find_Boost::headers "find_dependency(Boost 1.81)")
set(penstock_find_JPEG::JPEG "find_dependency(JPEG)")
set(penstock_find_ZLIB::ZLIB "find_dependency(ZLIB)")
set(penstock_find_PkgConfig::SPNG "find_dependency(PkgConfig)\npkg_check_modules(SPNG REQUIRED IMPORTED_TARGET spng)")
set(penstock_find_PkgConfig::HWY "find_dependency(PkgConfig)\npkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)")
set(penstock_find_PkgConfig::XXHASH "find_dependency(PkgConfig)\npkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)")
set(penstock_find_PkgConfig::OPENBLAS
    "find_dependency(PkgConfig)\npkg_check_modules(OPENBLAS REQUIRED IMPORTED_TARGET openblas)")
set(penstock_find_nlohmann_json::nlohmann_json "find_dependency(nlohmann_json)")
set(penstock_find_CUDA::cudart_static "find_dependency(CUDAToolkit)")
set(penstock_find_CUDA::cudart "find_dependency(CUDAToolkit)")
set(penstock_find_CUDA::cublasLt "find_dependency(CUDAToolkit)")
set(penstock_find_dependencies "")
foreach(part pipeline cache gpu trainer)
  get_target_property(libraries penstock_${part} LINK_LIBRARIES)
  foreach(library IN LISTS libraries)
    if(library MATCHES "^penstock::|^::@|^-|^/|^\\$<BUILD_INTERFACE")
      continue()
    endif()
    if(NOT DEFINED penstock_find_${library})
      message(FATAL_ERROR "penstock_${part} links ${library}: say in penstock_install.cmake how a user's build finds it")
    endif()
    list(APPEND penstock_find_dependencies "${penstock_find_${library}}")
  endforeach()
endforeach()
list(REMOVE_DUPLICATES penstock_find_dependencies)
list(JOIN penstock_find_dependencies "\n" penstock_find_dependencies)

configure_package_config_file(scripts/cmake/penstock-config.cmake.in ${PROJECT_BINARY_DIR}/penstock-config.cmake
                              INSTALL_DESTINATION ${penstock_package_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/penstock-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/penstock-config.cmake ${PROJECT_BINARY_DIR}/penstock-config-version.cmake
        DESTINATION ${penstock_package_folder})
