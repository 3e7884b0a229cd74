# What every target of the project shares: language level, warnings, exact floating point, one include spelling.

# penstock_part(NAME): the library penstock_NAME with its alias penstock::NAME. Sources are added by the folders below.
function(penstock_part name)
  add_library(penstock_${name} STATIC)
  add_library(penstock::${name} ALIAS penstock_${name})
  set_target_properties(penstock_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(penstock_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(penstock_${name} PUBLIC cxx_std_20)
  penstock_options(penstock_${name})
endfunction()

# penstock_options(TARGET): private compile options of our own targets. Contraction of a*b+c is off because it makes
# results depend on the compiler and on fusing; warnings are errors in our presets only. -Wrestrict is off because GCC 12
# sees overlaps that are not there in `"text" + std::string` (its bug 105651).
function(penstock_options target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -ffp-contract=off>
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
    $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra>)
  if(PENSTOCK_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
  endif()
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF CUDA_ARCHITECTURES "75-real;80-real;90-real;90-virtual")
endfunction()
