# The CUDA compiler, where HEARTH_CUDA asks for device code. The default build neither needs nor
# looks for one: tests/emulated compiles the same sources for the host.
#
# hearth_cuda_library(NAME SOURCES ...): device code for every card, its arithmetic pinned.
set(HEARTH_CUDA_COMPILER OFF)
if(NOT HEARTH_CUDA)
  return()
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(HEARTH_CUDA STREQUAL "AUTO")
    message(STATUS "no CUDA compiler: building without device code")
    return()
  endif()
  message(FATAL_ERROR "HEARTH_CUDA is ${HEARTH_CUDA}, but there is no CUDA compiler")
endif()
set(HEARTH_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90-real 120-real CACHE STRING
  "What device code is compiled for; one alone compiles faster")
set(CMAKE_CUDA_ARCHITECTURES ${HEARTH_CUDA_ARCHITECTURES})
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 knows none for CUDA 13
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()
set(HEARTH_CUDA_COMPILER ON)
# As in CMakeLists.txt: errors only with the CUDA compiler that has been tried.
set(HEARTH_CUDA_WARNINGS)
if(HEARTH_WARNINGS_ARE_ERRORS AND CMAKE_CUDA_COMPILER_VERSION MATCHES "^13\\.0\\.")
  set(HEARTH_CUDA_WARNINGS -Werror=all-warnings -Xcompiler=-Werror)
endif()

function(hearth_cuda_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON
    CUDA_EXTENSIONS OFF UNITY_BUILD OFF)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE --expt-relaxed-constexpr -fmad=false -ftz=false
    -prec-div=true -prec-sqrt=true -Xcompiler=-Wall,-Wextra ${HEARTH_CUDA_WARNINGS})
endfunction()
