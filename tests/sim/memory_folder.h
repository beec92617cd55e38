// MemoryFolder: the disk of a simulated coordinator's log, which outlives its processes.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/folder.h"

namespace hearth::sim {

using Files = std::map<std::string, Bytes>;

class MemoryFolder final : public ledger::LogFolder {
 public:
  explicit MemoryFolder(std::shared_ptr<Files> files) : files_(std::move(files)) {}

  Result<Bytes> read(const std::string& name, std::size_t limit) override {
    const auto found = files_->find(name);
    if (found == files_->end()) return Error{ErrorCode::kNotFound, "no file " + name};
    if (found->second.size() > limit) return Error::invalid(name + " is too long");
    return found->second;
  }
  Status write(std::span<const File> files) override {
    for (const File& file : files)
      (*files_)[file.name] = Bytes(file.bytes.begin(), file.bytes.end());
    return ok_status();
  }
  Status sync_names(const std::string& /*folder*/) override { return ok_status(); }
  Status rename(const std::string& from, const std::string& to) override {
    auto moved = files_->extract(from);
    if (moved.empty()) return Error{ErrorCode::kNotFound, "no file " + from};
    (*files_)[to] = std::move(moved.mapped());
    return ok_status();
  }
  Status remove(const std::string& name) override {
    files_->erase(name);
    return ok_status();
  }
  Result<std::vector<std::string>> list(const std::string& folder) override {
    std::set<std::string> names;
    for (auto file = files_->lower_bound(folder); file != files_->end(); ++file) {
      if (!file->first.starts_with(folder)) break;
      const std::string_view rest = std::string_view(file->first).substr(folder.size());
      names.insert(std::string(rest.substr(0, rest.find('/') + 1)));
      if (rest.find('/') == std::string_view::npos) names.insert(std::string(rest));
    }
    names.erase("");
    if (names.empty() && !folder.empty()) {
      return Error{ErrorCode::kNotFound, "no folder " + folder};
    }
    return std::vector<std::string>(names.begin(), names.end());
  }

 private:
  const std::shared_ptr<Files> files_;
};

}  // namespace hearth::sim
