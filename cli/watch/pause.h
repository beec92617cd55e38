// hearth pause, resume and drain: the owner's word to the workers of this machine's data folder.
#pragma once

#include <cstdint>
#include <string>

namespace hearth::cli {

struct PauseOptions {
  std::uint32_t seconds = 0;  // 0: until hearth resume
  std::string data_dir;       // empty: cli/process/paths.h
};

// Both wait until the workers here have given their memory back: kTimeout when they do not.
int run_pause(const PauseOptions& options);
int run_drain(const PauseOptions& options);  // until what they serve is elsewhere or over
int run_resume(const std::string& data_dir);

}  // namespace hearth::cli
