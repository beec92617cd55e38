// Lines of stdout with the arguments' own types.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <utility>

namespace hearth::cli {

// Unlike fmt::print(), it does not throw when stdout is full or closed.
template <typename... Args>
void print_line(fmt::format_string<Args...> format, Args&&... args) {
  std::puts(fmt::format(format, std::forward<Args>(args)...).c_str());
}

}  // namespace hearth::cli
