# Toolchain of preset `arm64`: this computer compiles for 64-bit ARM with Debian's cross compiler,
# against the headers and libraries of an arm64 system in HEARTH_ARM64_ROOT (environment or -D), which
# tests/arm64/root makes, and runs tests in qemu's emulator of the processor.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
find_program(HEARTH_ARM64_COMPILER NAMES aarch64-linux-gnu-g++ aarch64-linux-gnu-g++-12
  aarch64-linux-gnu-g++-13 aarch64-linux-gnu-g++-14 REQUIRED)
set(CMAKE_CXX_COMPILER ${HEARTH_ARM64_COMPILER})
if(NOT HEARTH_ARM64_ROOT)
  set(HEARTH_ARM64_ROOT "$ENV{HEARTH_ARM64_ROOT}" CACHE PATH "Folder of an arm64 system")
endif()
if(NOT HEARTH_ARM64_ROOT OR NOT IS_DIRECTORY "${HEARTH_ARM64_ROOT}/usr/include")
  message(FATAL_ERROR "HEARTH_ARM64_ROOT names no arm64 system, got '${HEARTH_ARM64_ROOT}': make one "
    "with tests/arm64/root FOLDER, then export HEARTH_ARM64_ROOT=FOLDER")
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HEARTH_ARM64_ROOT)
set(CMAKE_SYSROOT "${HEARTH_ARM64_ROOT}")
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH "${HEARTH_ARM64_ROOT}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)  # protoc and its plugin run here
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${HEARTH_ARM64_ROOT}")
set(ENV{PKG_CONFIG_LIBDIR}
  "${HEARTH_ARM64_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${HEARTH_ARM64_ROOT}/usr/share/pkgconfig")
find_program(HEARTH_ARM64_EMULATOR NAMES qemu-aarch64 qemu-aarch64-static)
set(CMAKE_CROSSCOMPILING_EMULATOR "${HEARTH_ARM64_EMULATOR};-L;${HEARTH_ARM64_ROOT}")
