// A data folder for tests of logs; it goes with the object.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace hearth::cli {

class LogsFolder {
 public:
  LogsFolder() : path_(std::filesystem::temp_directory_path() / name()) {
    std::filesystem::create_directories(path_ / "logs");
  }
  ~LogsFolder() { std::filesystem::remove_all(path_); }
  LogsFolder(const LogsFolder&) = delete;
  LogsFolder& operator=(const LogsFolder&) = delete;

  std::string path() const { return path_.string(); }
  std::string file(const std::string& name) const { return (path_ / "logs" / name).string(); }
  void append(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::app) << text;
  }

 private:
  static std::string name() {
    static int count = 0;
    return "hearth-logs-" + std::to_string(getpid()) + "-" + std::to_string(count++);
  }
  std::filesystem::path path_;
};

}  // namespace hearth::cli
