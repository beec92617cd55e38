#include "cli/serve/served_manifest.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/private_file.h"
#include "coordinator/store/stored_manifest.h"
#include "model/gguf/gguf.h"
#include "model/gguf/parts.h"

namespace hearth::cli {
namespace {

constexpr int kNice = 10;  // steps go first
constexpr auto kPauseWhileAway = std::chrono::milliseconds(250);

std::string note_of(const std::string& folder) { return folder + "/manifest.of"; }

// Which file was hashed, and how it was then.
Result<std::string> identity_of_file(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return Error::of(ErrorCode::kIo, "cannot read ", path);
  return message_of(std::filesystem::absolute(path).string(), " ", info.st_dev, " ", info.st_ino,
                    " ", info.st_size, " ", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec);
}

// The same of all parts of a model: a hash, since there may be many.
Result<std::string> identity_of(const std::string& path) {
  const std::vector<std::string> files = model::all_parts(path);
  if (files.size() == 1) return identity_of_file(path);
  Blake2b all;
  for (const std::string& file : files) {
    TRY(const std::string identity, identity_of_file(file));
    all.update(as_bytes(identity + "\n"));
  }
  return all.finish().hex();
}

}  // namespace

ServedManifest::ServedManifest(Options options) : options_(std::move(options)) {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice);
    const Status made = make(stop);
    if (made.ok() || stop.stop_requested()) return;
    spdlog::error("nodes need the model file to join, since its manifest cannot be made: {}",
                  made.error().message);
  });
}

// The number of the next one follows theirs.
Status ServedManifest::follow_others(ManifestFile& kept) const {
  if (options_.term.epoch == 0) return ok_status();
  TRY(const Bytes theirs, coordinator::read_stored_manifest(options_.folder));
  if (theirs.empty()) return ok_status();
  TRY(const bool is_other, kept.follow(theirs));
  // The note names the file of the one before.
  return is_other ? write_private_file(note_of(options_.folder), {}) : ok_status();
}

// Before a worker has it.
Status ServedManifest::tell_others(const ManifestFile& kept, const std::stop_token& stop) const {
  if (options_.term.epoch == 0) return ok_status();
  for (;;) {
    const Status told =
        coordinator::write_stored_manifest(options_.folder, options_.term, kept.bytes());
    const bool is_away = !told.ok() && told.error().code == ErrorCode::kUnavailable;
    if (!is_away || stop.stop_requested()) return told;
    std::this_thread::sleep_for(kPauseWhileAway);
  }
}

Status ServedManifest::make(const std::stop_token& stop) {
  TRY(auto opened, ManifestFile::open(options_.folder, options_.cluster.public_key()));
  const auto kept = std::make_shared<ManifestFile>(std::move(opened));
  TRY(const std::string identity, identity_of(options_.model));
  const std::string note = note_of(options_.folder);
  const auto noted = read_private_file(note, 64 * 1024);
  const std::optional<model::Manifest> own = kept->manifest();
  const bool noted_known = own && noted.ok() && as_text(*noted) == identity;
  TRY_VOID(follow_others(*kept));
  model::Manifest manifest;
  if (options_.known) {
    manifest = *options_.known;
  } else if (noted_known) {
    manifest = *own;
  } else {
    TRY(const auto file, model::GgufFile::open(options_.model));
    file_bytes_ = file->file_bytes();
    TRY(manifest, model::make_manifest(*file, [&](std::uint64_t done) {
          hashed_ = done;
          return !stop.stop_requested();
        }));
  }
  manifest.sources = options_.sources;
  TRY_VOID(kept->publish(std::move(manifest), options_.cluster));
  TRY_VOID(tell_others(*kept, stop));
  TRY_VOID(write_private_file(note, as_bytes(identity)));
  spdlog::info("machines that join fetch their layers from here (manifest {})",
               kept->manifest()->number);
  TRY(node::ModelBytes files, node::ModelBytes::open(options_.model));
  const auto bytes = std::make_shared<const node::ModelBytes>(std::move(files));
  options_.post([ready = options_.ready, kept, bytes] { ready(*kept, bytes); });
  return ok_status();
}

}  // namespace hearth::cli
