// A data folder for tests of pauses; it goes with the object.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

namespace hearth::cli {

class PauseFolder {
 public:
  PauseFolder() { std::filesystem::create_directories(path_); }
  ~PauseFolder() { std::filesystem::remove_all(path_); }
  PauseFolder(const PauseFolder&) = delete;
  PauseFolder& operator=(const PauseFolder&) = delete;
  std::string path() const { return path_.string(); }

 private:
  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("hearth-pause-" + std::to_string(getpid()));
};

}  // namespace hearth::cli
