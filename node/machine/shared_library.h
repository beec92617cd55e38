// A library of the system that is opened at run time. The build does not need it; on a machine
// without the library its feature is off. dlopen(3); any thread.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <string>

#include "base/result.h"

namespace hearth::node {

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};
using SharedLibrary = std::unique_ptr<void, CloseLibrary>;

// Null where the system has no library of this file name.
inline SharedLibrary open_library(const std::string& name) {
  return SharedLibrary(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL));
}

// kUnavailable names the function that `whose` lacks.
template <typename Function>
Status find_function(const SharedLibrary& library, const char* whose, const char* name,
                     Function& function) {
  function = reinterpret_cast<Function>(dlsym(library.get(), name));
  if (function != nullptr) return ok_status();
  return Error::of(ErrorCode::kUnavailable, whose, " has no ", name);
}

}  // namespace hearth::node
