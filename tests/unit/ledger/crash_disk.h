// A disk for a log that can lose power at any step. It keeps what a log asked for as a journal of
// steps, and makes of every beginning of that journal the disks that a power cut may leave: bytes
// that were never synced lost, cut at a sector, or garbage; names that were never synced made or
// not, each by itself.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "ledger/folder.h"

namespace hearth::ledger {

// Files by path; folders end with a slash and have no bytes.
using Image = std::map<std::string, Bytes>;

class CrashDisk final : public LogFolder {
 public:
  explicit CrashDisk(Image image = {}) : begun_(image), now_(std::move(image)) {}

  // For tests of the test: this kind of sync does nothing.
  enum class Fault { kNone, kFileSync, kNameSync };
  Fault fault = Fault::kNone;
  // The step that fails, and all behind it; none by default.
  std::size_t fails_at = ~std::size_t{0};

  std::size_t steps() const { return journal_.size(); }
  const Image& now() const { return now_; }
  Image& now() { return now_; }

  // What a power cut after `steps` may leave. 0: all that is not synced is lost; 1: nothing is;
  // 2 to 4: names are there, bytes are missing, cut or garbage; from 5 on everything by chance.
  Image crash(std::size_t steps, unsigned choice) const;

  Result<Bytes> read(const std::string& name, std::size_t limit) override {
    const auto found = now_.find(name);
    if (found == now_.end()) return Error{ErrorCode::kNotFound, "no file " + name};
    if (found->second.size() > limit) return Error::invalid(name + " is too long");
    return found->second;
  }
  Status write(std::span<const File> files) override {
    for (const File& file : files) {
      TRY_VOID(step({Step::kWrite, file.name, {}, Bytes(file.bytes.begin(), file.bytes.end())}));
    }
    for (const File& file : files) TRY_VOID(step({Step::kSyncFile, file.name, {}, {}}));
    return ok_status();
  }
  Status sync_names(const std::string& folder) override {
    return step({Step::kSyncNames, folder, {}, {}});
  }
  Status rename(const std::string& from, const std::string& to) override {
    return step({Step::kRename, from, to, {}});
  }
  Status remove(const std::string& name) override {
    if (!now_.contains(name)) return Error{ErrorCode::kNotFound, "no file " + name};
    return step({Step::kRemove, name, {}, {}});
  }
  Result<std::vector<std::string>> list(const std::string& folder) override {
    if (!folder.empty() && !now_.contains(folder)) return Error{ErrorCode::kNotFound, folder};
    std::set<std::string> names;
    for (const auto& [path, bytes] : now_) {
      if (!path.starts_with(folder) || path == folder) continue;
      const std::size_t slash = path.find('/', folder.size());
      names.insert(path.substr(folder.size(), slash == std::string::npos
                                                  ? std::string::npos
                                                  : slash + 1 - folder.size()));
    }
    return std::vector<std::string>(names.begin(), names.end());
  }

 private:
  struct Step {
    enum Kind { kWrite, kSyncFile, kSyncNames, kRename, kRemove } kind;
    std::string name;
    std::string to;
    Bytes bytes;
  };
  struct File_ {
    Bytes safe;  // as of its last sync
    Bytes now;
    bool dirty = false;
  };
  // A name made (a file's number, or -1 for a folder) or, without one, taken away.
  struct Naming {
    std::string folder;
    std::string made;
    std::optional<int> what;
    std::string gone;
  };
  struct State {
    std::vector<File_> files;
    std::map<std::string, int> safe_names;
    std::map<std::string, int> names;
    std::vector<Naming> pending;
  };

  static std::string folder_of(const std::string& path) {
    const std::size_t from = path.ends_with('/') ? path.size() - 2 : path.size();
    const std::size_t slash = path.rfind('/', from);
    return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
  }
  static std::vector<std::string> folders_above(const std::string& path) {
    std::vector<std::string> folders;
    for (std::size_t at = path.find('/'); at != std::string::npos && at + 1 < path.size();
         at = path.find('/', at + 1)) {
      folders.push_back(path.substr(0, at + 1));
    }
    return folders;
  }

  Status step(Step step) {
    if (journal_.size() >= fails_at) return Error{ErrorCode::kIo, "the disk failed"};
    switch (step.kind) {
      case Step::kWrite:
        for (const std::string& folder : folders_above(step.name)) now_[folder];
        now_[step.name] = step.bytes;
        break;
      case Step::kRename: {
        auto moved = now_.extract(step.name);
        now_[step.to] = std::move(moved.mapped());
        break;
      }
      case Step::kRemove: now_.erase(step.name); break;
      case Step::kSyncFile:
        if (fault == Fault::kFileSync) return ok_status();
        break;
      case Step::kSyncNames:
        if (fault == Fault::kNameSync) return ok_status();
        break;
    }
    journal_.push_back(std::move(step));
    return ok_status();
  }

  static void name(State& state, const std::string& path, int what) {
    state.names[path] = what;
    state.pending.push_back({folder_of(path), path, what, {}});
  }
  static void apply(std::map<std::string, int>& names, const Naming& naming) {
    if (!naming.gone.empty()) names.erase(naming.gone);
    if (naming.what) names[naming.made] = *naming.what;
  }
  static void replay(State& state, const Step& step);
  static Bytes torn(const File_& file, unsigned choice, SeededRandom& random);

  Image begun_;
  Image now_;
  std::vector<Step> journal_;
};

inline void CrashDisk::replay(State& state, const Step& step) {
  switch (step.kind) {
    case Step::kWrite: {
      for (const std::string& folder : folders_above(step.name)) {
        if (!state.names.contains(folder)) name(state, folder, -1);
      }
      if (!state.names.contains(step.name)) {
        state.files.emplace_back();
        name(state, step.name, static_cast<int>(state.files.size()) - 1);
      }
      File_& file = state.files[static_cast<std::size_t>(state.names[step.name])];
      file.now = step.bytes;
      file.dirty = true;
      break;
    }
    case Step::kSyncFile: {
      File_& file = state.files[static_cast<std::size_t>(state.names[step.name])];
      file.safe = file.now;
      file.dirty = false;
      break;
    }
    case Step::kSyncNames: {
      std::vector<Naming> rest;
      for (const Naming& naming : state.pending) {
        if (naming.folder == step.name) {
          apply(state.safe_names, naming);
        } else {
          rest.push_back(naming);
        }
      }
      state.pending = std::move(rest);
      break;
    }
    case Step::kRename: {
      const int what = state.names[step.name];
      state.names.erase(step.name);
      state.names[step.to] = what;
      state.pending.push_back({folder_of(step.to), step.to, what, step.name});
      break;
    }
    case Step::kRemove:
      state.names.erase(step.name);
      state.pending.push_back({folder_of(step.name), {}, std::nullopt, step.name});
      break;
  }
}

inline Bytes CrashDisk::torn(const File_& file, unsigned choice, SeededRandom& random) {
  constexpr std::size_t kSector = 512;
  if (!file.dirty || choice == 1) return file.now;
  if (choice == 0) return file.safe;
  Bytes bytes = file.now;
  const std::uint64_t how = choice <= 4 ? choice : 1 + random.next() % 6;
  const std::size_t sectors = (bytes.size() + kSector - 1) / kSector;
  switch (how) {
    case 1: return bytes;
    case 2: return {};
    case 3:  // cut at a sector
      bytes.resize(std::min<std::size_t>(bytes.size(), kSector * (random.next() % (sectors + 1))));
      return bytes;
    case 4:
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
      return bytes;
    case 5:  // its length, but sectors of it never written
      for (std::size_t at = 0; at < bytes.size(); at += kSector) {
        if (random.next() % 2 == 0) continue;
        const std::size_t end = std::min(at + kSector, bytes.size());
        std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                  bytes.begin() + static_cast<std::ptrdiff_t>(end), std::byte{0});
      }
      return bytes;
    default: return file.safe;
  }
}

inline Image CrashDisk::crash(std::size_t steps, unsigned choice) const {
  State state;
  for (const auto& [path, bytes] : begun_) {
    int what = -1;
    if (!path.ends_with('/')) {
      state.files.push_back({bytes, bytes, false});
      what = static_cast<int>(state.files.size()) - 1;
    }
    state.names[path] = what;
    state.safe_names[path] = what;
  }
  for (std::size_t i = 0; i < steps; ++i) replay(state, journal_[i]);
  SeededRandom random(steps * 1'000 + choice);
  std::map<std::string, int> names = state.safe_names;
  for (const Naming& naming : state.pending) {
    if (choice == 0 || (choice >= 5 && random.next() % 2 == 0)) continue;
    apply(names, naming);
  }
  Image image;
  for (const auto& [path, what] : names) {
    const auto above = folders_above(path);
    const bool reached = std::all_of(above.begin(), above.end(), [&](const std::string& folder) {
      return names.contains(folder);
    });
    if (!reached) continue;
    image[path] =
        what < 0 ? Bytes() : torn(state.files[static_cast<std::size_t>(what)], choice, random);
  }
  return image;
}

// Several logs, one after the other, on one disk.
class BorrowedFolder final : public LogFolder {
 public:
  explicit BorrowedFolder(LogFolder& folder) : folder_(folder) {}
  Result<Bytes> read(const std::string& name, std::size_t limit) override {
    return folder_.read(name, limit);
  }
  Status write(std::span<const File> files) override { return folder_.write(files); }
  Status sync_names(const std::string& folder) override { return folder_.sync_names(folder); }
  Status rename(const std::string& from, const std::string& to) override {
    return folder_.rename(from, to);
  }
  Status remove(const std::string& name) override { return folder_.remove(name); }
  Result<std::vector<std::string>> list(const std::string& folder) override {
    return folder_.list(folder);
  }

 private:
  LogFolder& folder_;
};

inline std::unique_ptr<LogFolder> borrow(LogFolder& folder) {
  return std::make_unique<BorrowedFolder>(folder);
}

}  // namespace hearth::ledger
