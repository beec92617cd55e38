# OpenCL code for GPUs that are not NVIDIA's, where HEARTH_OPENCL asks for it: made by clang 15 or
# newer and kernels/opencl/translate.py of the sources that CUDA compiles. A build has device code of
# one kind, since both are what kernels/cuda/runtime.h declares.
set(HEARTH_OPENCL_CLANG OFF)
if(NOT HEARTH_OPENCL)
  return()
endif()
find_package(Python3 3.9 COMPONENTS Interpreter)
find_program(HEARTH_CLANG_FOR_OPENCL NAMES clang-19 clang-18 clang-17 clang-16 clang-15)
find_path(HEARTH_OPENCL_HEADERS CL/cl.h)
if(HEARTH_CUDA_COMPILER OR NOT HEARTH_CLANG_FOR_OPENCL OR NOT HEARTH_OPENCL_HEADERS OR
   NOT Python3_FOUND)
  set(lack "HEARTH_OPENCL needs clang-15, opencl-headers and Python 3, and no HEARTH_CUDA")
  if(HEARTH_OPENCL STREQUAL "AUTO")
    message(STATUS "${lack}: building without OpenCL code")
    return()
  endif()
  message(FATAL_ERROR "${lack}")
endif()
set(HEARTH_OPENCL_CLANG ${HEARTH_CLANG_FOR_OPENCL})

# hearth_opencl_objects(OUT SOURCES ...): OUT becomes the objects of sources of kernels/cuda.
function(hearth_opencl_objects out)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  set(folder ${PROJECT_SOURCE_DIR}/kernels/opencl)
  set(objects)
  foreach(source ${ARG_SOURCES})
    get_filename_component(name ${source} NAME)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.opencl.o)
    add_custom_command(OUTPUT ${object}
      COMMAND Python3::Interpreter ${folder}/translate.py --clang ${HEARTH_OPENCL_CLANG}
        --output ${object} --dependencies ${object}.d ${source} -I${PROJECT_SOURCE_DIR}
      DEPENDS ${source} ${folder}/translate.py ${folder}/kernel_text.py ${folder}/llvm_text.py
      DEPFILE ${object}.d
      COMMENT "OpenCL C of ${name}" VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()
