#include "cli/models/pull.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/crypto.h"
#include "cli/models/hub.h"
#include "cli/process/paths.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/print_line.h"
#include "cli/terminal/progress.h"
#include "coordinator/client/http_client.h"
#include "model/gguf/gguf.h"
#include "model/gguf/parts.h"

namespace hearth::cli {
namespace fs = std::filesystem;

namespace {

constexpr int kAttempts = 6;

Error io_error(const std::string& what, const fs::path& path) {
  const int code = errno;
  std::string message = what + " " + path.string() + ": " + std::strerror(code);
  if (code == ENOSPC) message += "; free some space and pull again, which resumes";
  return {ErrorCode::kIo, message};
}

// Receives the number of bytes of a file that are on this disk.
using OnBytes = std::function<void(std::uint64_t)>;

// One resumable download into `partial`.
class Download {
 public:
  Download(client::HttpClient& http, const Remote& remote, fs::path partial)
      : http_(http), remote_(remote), partial_(std::move(partial)) {}

  std::uint64_t have() const {
    std::error_code missing;
    const auto size = fs::file_size(partial_, missing);
    return missing ? 0 : size;
  }

  // A partial file of another address or version cannot be continued.
  Status match_earlier() {
    const fs::path note = partial_.string() + ".json";
    const std::string shown = client::without_secrets(remote_.url);
    auto wanted = nlohmann::json{{"url", shown}, {"sha256", remote_.sha256}};
    if (shown != remote_.url) {
      Sha256 whole;
      whole.update(as_bytes(remote_.url));
      wanted["url_sha256"] = whole.finish().hex();
    }
    std::ifstream file(note);
    const auto found = file ? nlohmann::json::parse(file, nullptr, false) : nlohmann::json();
    if (found == wanted) return ok_status();
    std::error_code ignored;
    fs::remove(partial_, ignored);
    std::ofstream out(note);
    out << wanted.dump();
    out.close();
    if (!out) return io_error("cannot write", note);
    return ok_status();
  }

  // After match_earlier().
  Status run(const OnBytes& progress) {
    Error last;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const std::uint64_t before = have();
      Status status = once(progress);
      if (status.ok()) return status;
      last = std::move(status).error();
      const bool transient =
          last.code == ErrorCode::kUnavailable || last.code == ErrorCode::kTimeout;
      if (!transient) return last;
      if (have() > before) attempt = 0;  // progress resets the count of attempts
      std::this_thread::sleep_for(std::chrono::milliseconds(250) * (1 << attempt));
      if (interrupted()) return Error{ErrorCode::kCancelled, "interrupted"};
    }
    return last;
  }

 private:
  Status once(const OnBytes& progress) {
    const std::uint64_t offset = have();
    if (remote_.bytes > 0 && offset == remote_.bytes) return ok_status();
    const int fd = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return io_error("cannot write", partial_);
    Status status = transfer(fd, offset, progress);
    if (::close(fd) != 0 && status.ok()) status = io_error("cannot write", partial_);
    return status;
  }

  Status transfer(int fd, std::uint64_t offset, const OnBytes& progress) {
    if (::lseek(fd, static_cast<off_t>(offset), SEEK_SET) < 0) {
      return io_error("cannot write", partial_);
    }
    const std::string shown = client::without_secrets(remote_.url);
    std::uint64_t done = offset;
    const auto restart = [&]() -> Status {
      done = 0;
      if (::ftruncate(fd, 0) != 0 || ::lseek(fd, 0, SEEK_SET) < 0) {
        return io_error("cannot write", partial_);
      }
      return ok_status();
    };
    const auto sink = [&](std::string_view bytes) -> Status {
      while (!bytes.empty()) {
        const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return io_error("cannot write", partial_);
        bytes.remove_prefix(static_cast<std::size_t>(wrote));
        done += static_cast<std::uint64_t>(wrote);
      }
      progress(done);
      return ok_status();
    };
    auto got = http_.download(remote_.url, offset,
                              {std::chrono::milliseconds(0), remote_.headers, true}, restart, sink);
    if (!got.ok() && got.error().code == ErrorCode::kUnsupported && offset > 0) {
      TRY_VOID(restart());  // the next attempt asks for the whole file
      return Error{ErrorCode::kUnavailable, got.error().message};
    }
    TRY(const client::HttpReply reply, std::move(got));
    if (reply.status == 416 && offset > 0) {  // our partial file is not a beginning of that file
      TRY_VOID(restart());
      return Error::of(ErrorCode::kUnavailable, shown, " has nothing after byte ", offset,
                       "; pull again to restart");
    }
    if (reply.status >= 500 || reply.status == 429 || reply.status == 408) {
      return Error::of(ErrorCode::kUnavailable, shown, " answers ", reply.status);
    }
    if (reply.status >= 400) {
      return Error::of(ErrorCode::kNotFound, shown, " answers ", reply.status,
                       "; check the address");
    }
    return ok_status();
  }

  client::HttpClient& http_;
  const Remote remote_;
  const fs::path partial_;
};

// One progress bar of several files, which come one after the other.
class SharedBar {
 public:
  // `already`: bytes that earlier runs have fetched.
  SharedBar(const std::string& message, std::uint64_t total, std::uint64_t already, bool quiet)
      : bar_(message, total, already, quiet) {}
  // For the next file.
  OnBytes next() {
    before_ += now_;
    now_ = 0;
    return [this](std::uint64_t done) {
      now_ = done;
      bar_.set(before_ + done);
    };
  }
  void finish() { bar_.finish(); }

 private:
  ProgressBar bar_;
  std::uint64_t before_ = 0;  // bytes of the files before this one
  std::uint64_t now_ = 0;
};

// Where the file system supports it, both files share their blocks until one of them changes.
bool clone_file(const fs::path& from, const fs::path& to) {
  const int in = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
  const int out = ::open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const bool cloned = in >= 0 && out >= 0 && ::ioctl(out, FICLONE, in) == 0;
  for (const int fd : {in, out}) {
    if (fd >= 0) ::close(fd);
  }
  return cloned;
}

// A link would change together with the file.
Status copy_local(const fs::path& from, const fs::path& partial, const OnBytes& progress) {
  std::error_code failed;
  fs::remove(partial, failed);
  if (clone_file(from, partial)) return ok_status();
  std::ifstream in(from, std::ios::binary);
  std::ofstream out(partial, std::ios::binary);
  if (!in) return io_error("cannot read", from);
  std::vector<char> buffer(1 << 20);
  std::uint64_t done = 0;
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0) {
    if (interrupted()) return Error{ErrorCode::kCancelled, "interrupted"};
    out.write(buffer.data(), in.gcount());
    if (!out) return io_error("cannot write", partial);
    progress(done += static_cast<std::uint64_t>(in.gcount()));
  }
  out.close();
  if (in.bad()) return io_error("cannot read", from);
  if (!out) return io_error("cannot write", partial);
  return ok_status();
}

// org/Some-Model-GGUF:Q4_K_M -> some-model.q4_k_m
std::string repository_name(const HubRequest& request) {
  constexpr std::string_view kEnd = "-gguf";
  std::string name = model_name(request.repository);
  if (name.size() > kEnd.size() && name.ends_with(kEnd)) name.resize(name.size() - kEnd.size());
  if (!request.quantisation.empty()) name += "." + model_name(request.quantisation);
  return name;
}

std::string pulled_name(const PullOptions& options) {
  if (!options.name.empty()) return options.name;
  if (const auto request = hub_request(options.source)) return repository_name(*request);
  std::string path = options.source;
  if (path.starts_with("hf:")) {
    if (const auto at = path.rfind('@'); at != std::string::npos) path.resize(at);
  } else if (const auto query = path.find_first_of("?#");
             query != std::string::npos && path.find("://") != std::string::npos) {
    path.resize(query);
  }
  return model_name(path);
}

// The path of a model in one file until it is verified, and the folder of its parts.
fs::path partial_file(const std::string& name) {
  return models_dir() / ("." + name + ".incomplete");
}
fs::path partial_folder(const std::string& name) {
  return models_dir() / ("." + name + ".incomplete-parts");
}

// The files of a model: their sources, their present paths and their final paths.
struct Files {
  std::string source;              // of the first
  std::vector<std::string> parts;  // paths or sources, in order; one of a model in one file
  bool local = false;
  std::vector<fs::path> partial;  // where each is until all are verified
  std::vector<fs::path> target;
};

Result<std::vector<std::string>> local_parts(const std::string& path) {
  const auto part = model::part_name(path);
  REQUIRE(!part || part->place.number == 1, path, " is part ", part->place.number, " of ",
          part->place.count, " of a model: name the first part, ", part->of(1));
  std::vector<std::string> parts = model::all_parts(path);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::error_code ignored;
    if (fs::is_regular_file(parts[i], ignored)) continue;
    return Error::of(ErrorCode::kNotFound, path, ": part ", i + 1, " of ", parts.size(),
                     " is missing: there is no ", parts[i]);
  }
  return parts;
}

// The hub decides which file of a repository is meant.
Result<Files> find_files(client::HttpClient& http, const PullOptions& options,
                         const std::string& name) {
  Files files;
  files.source = options.source;
  std::error_code ignored;
  files.local = fs::is_regular_file(options.source, ignored);
  if (files.local) {
    TRY(files.parts, local_parts(options.source));
  } else {
    const bool known =
        options.source.starts_with("hf:") || options.source.find("://") != std::string::npos;
    if (!known) {
      return Error::of(ErrorCode::kNotFound, "source \"", options.source,
                       "\": not a file and not a pulled model; pass a path, https://..., "
                       "hf:org/repo:Q4_K_M or hf:org/repo/file (deploy/quickstart fetches the "
                       "demo model smollm2-135m)");
    }
    if (!options.source.starts_with("hf:")) TRY_VOID(check_url(options.source));
    if (const auto request = hub_request(options.source)) {
      TRY(files.source, choose_in_hub(http, *request));
    }
    TRY(files.parts, part_sources(files.source));
  }
  const auto count = static_cast<std::uint32_t>(files.parts.size());
  if (count == 1) {
    files.partial.push_back(partial_file(name));
    files.target.push_back(models_dir() / (name + ".gguf"));
    return files;
  }
  REQUIRE(options.sha256.empty(), "--sha256 is the digest of one file, and the model has ", count,
          " parts; leave it out: each part is compared with the hub's digest of it");
  // The parts must have their names while they are verified together.
  const fs::path folder = partial_folder(name);
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return Error::of(ErrorCode::kIo, "cannot create ", folder.string());
  const model::PartName part{name, {1, count}};
  for (std::uint32_t i = 1; i <= count; ++i) {
    files.partial.push_back(folder / part.of(i));
    files.target.push_back(models_dir() / part.of(i));
  }
  return files;
}

// Copies files of this disk. Where the file system supports it, that takes no time.
Status copy_all(const Files& files, const std::string& name, bool quiet) {
  std::uint64_t total = 0;
  for (const std::string& part : files.parts) {
    std::error_code failed;
    total += fs::file_size(part, failed);
    if (failed) return Error::of(ErrorCode::kIo, "cannot read ", part, ": ", failed.message());
  }
  SharedBar bar("copying " + name, total, 0, quiet);
  for (std::size_t i = 0; i < files.parts.size(); ++i) {
    TRY_VOID(copy_local(files.parts[i], files.partial[i], bar.next()));
  }
  bar.finish();
  return ok_status();
}

// Downloads all files, each from where it stopped. Returns the digests that they must have; an
// empty one allows any.
Result<std::vector<std::string>> download_all(client::HttpClient& http, const Files& files,
                                              const PullOptions& options, const std::string& name) {
  std::vector<Download> downloads;
  std::vector<std::string> digests;
  std::uint64_t total = 0;
  std::uint64_t already = 0;
  bool sized = true;
  std::string commit;  // of the first part: a branch that moves cannot mix two versions
  for (std::size_t i = 0; i < files.parts.size(); ++i) {
    TRY(Remote remote, locate(http, at_commit(files.parts[i], commit)));
    TRY_VOID(measure(http, remote));
    if (!options.sha256.empty()) remote.sha256 = options.sha256;
    if (commit.empty()) commit = remote.commit;
    sized = sized && remote.bytes > 0;
    total += remote.bytes;
    digests.push_back(remote.sha256);
    downloads.emplace_back(http, remote, files.partial[i]);
    TRY_VOID(downloads.back().match_earlier());
    already += downloads.back().have();
  }
  SharedBar bar(name, sized ? total : 0, already, options.quiet);
  for (Download& download : downloads) {
    const OnBytes progress = bar.next();
    TRY_VOID(download.run(progress));
    progress(download.have());
  }
  bar.finish();
  return digests;
}

// The source without secrets, as it may be shown and stored; a path contains none.
std::string shown_source(const std::string& source) {
  return source.find("://") == std::string::npos ? source : client::without_secrets(source);
}

// What to do about a file that is a web page about the model.
std::string page_hint(const fs::path& file, const std::string& source) {
  char first = '\0';
  std::ifstream(file, std::ios::binary) >> first;
  if (first != '<') return "";
  std::string direct = source;
  const auto page = direct.find("/blob/");
  if (page == std::string::npos) return "; it is a web page: use the address of the file itself";
  direct.replace(page, 6, "/resolve/");
  return "; it is a web page about the file, which is at " + direct;
}

// Deletes a present model of the same name that has another number of files.
void remove_others(const std::string& name, const std::vector<fs::path>& files) {
  std::vector<fs::path> others;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(models_dir(), ignored)) {
    const std::string file = entry.path().filename().string();
    const auto part = model::part_name(file);
    const bool same = part ? part->stem == name : file == name + ".gguf";
    if (same && std::ranges::find(files, entry.path()) == files.end()) {
      others.push_back(entry.path());
    }
  }
  for (const fs::path& file : others) fs::remove(file, ignored);
}

// The SHA-256 of each file, which must be the wanted one.
Result<std::vector<std::string>> verify(const Files& files, const std::vector<std::string>& wanted,
                                        bool quiet) {
  std::uint64_t total = 0;
  for (const fs::path& file : files.partial) {
    std::error_code missing;
    const std::uint64_t bytes = fs::file_size(file, missing);
    if (!missing) total += bytes;
  }
  SharedBar bar("verifying sha256", total, 0, quiet);
  std::vector<std::string> digests;
  for (std::size_t i = 0; i < files.partial.size(); ++i) {
    TRY(digests.emplace_back(), sha256_of_file(files.partial[i], bar.next()));
    if (wanted[i].empty() || digests.back() == wanted[i]) continue;
    std::error_code ignored;
    fs::remove(files.partial[i], ignored);
    return Error::invalid("SHA-256 of ", shown_source(files.parts[i]), " is ", digests.back(),
                          ", expected ", wanted[i], "; the bad copy is deleted, pull again");
  }
  bar.finish();
  return digests;
}

// Deletes the partial files of this name, including those of earlier pulls with another number of
// files.
void remove_partial(const std::string& name) {
  std::error_code ignored;
  fs::remove(partial_file(name), ignored);
  fs::remove(partial_file(name).string() + ".json", ignored);
  fs::remove_all(partial_folder(name), ignored);
}

// Verifies the files and renames them to their final names, the first part last, because the model
// is found by it.
Result<LocalModel> admit(const Files& files, const std::string& name,
                         const std::vector<std::string>& wanted, bool quiet) {
  const std::string source = shown_source(files.source);
  TRY(std::vector<std::string> digests, verify(files, wanted, quiet));
  const auto parsed = model::GgufFile::open(files.partial.front().string());
  Status usable = parsed.ok() ? ok_status() : Status(parsed.error());
  const std::size_t parts = parsed.ok() ? std::max<std::size_t>(1, (*parsed)->parts().size()) : 0;
  if (usable.ok() && parts != files.parts.size()) {
    usable = Error::invalid("its name says ", files.parts.size(), " parts, and its keys ", parts);
  }
  if (!usable.ok()) {
    const std::string hint = page_hint(files.partial.front(), source);
    remove_partial(name);
    return Error::invalid(source, " is not a usable GGUF file: ", usable.error().message, hint);
  }
  LocalModel model;
  model.name = name;
  model.path = files.target.front();
  model.source = source;
  std::error_code failed;
  // Old and new parts together would be a model with wrong weights. Without the first part there is
  // no model.
  if (files.target.size() > 1) fs::remove(files.target.front(), failed);
  if (failed) return Error::of(ErrorCode::kIo, "cannot replace ", files.target.front().string());
  for (std::size_t i = files.partial.size(); i-- > 0;) {
    fs::rename(files.partial[i], files.target[i], failed);
    if (failed) return Error::of(ErrorCode::kIo, "cannot create ", files.target[i].string());
    model.bytes += fs::file_size(files.target[i], failed);
  }
  remove_partial(name);
  remove_others(name, files.target);
  if (digests.size() == 1) {
    model.sha256 = digests.front();
  } else {
    model.part_sha256 = std::move(digests);
  }
  TRY_VOID(write_model_record(model));
  return model;
}

// The complete model of this name that is already here; with --sha256 only one with that digest.
std::optional<LocalModel> pulled_before(const PullOptions& options, const std::string& name) {
  const auto is_there = [](const std::string& file) {
    std::error_code ignored;
    return fs::is_regular_file(file, ignored);
  };
  for (LocalModel& model : list_models()) {
    if (model.name == name && (options.sha256.empty() || options.sha256 == model.sha256) &&
        std::ranges::all_of(model::all_parts(model.path.string()), is_there)) {
      return std::move(model);
    }
  }
  return std::nullopt;
}

}  // namespace

Result<LocalModel> pull_model(const PullOptions& options) {
  const std::string name = pulled_name(options);
  TRY_VOID(check_model_name(name));
  REQUIRE(options.sha256.empty() || is_sha256(options.sha256),
          "--sha256 must be 64 lower-case hexadecimal digits");
  std::error_code failed;
  fs::create_directories(models_dir(), failed);
  if (failed) return Error::of(ErrorCode::kIo, "cannot create ", models_dir().string());
  std::ofstream(cache_dir() / "CACHEDIR.TAG") << "Signature: 8a477f597d28d172789f06886806bc55\n";

  const fs::path lock_path = models_dir() / ("." + name + ".lock");
  const int lock = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) return io_error("cannot write", lock_path);
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock);
    return Error::of(ErrorCode::kUnavailable, "another pull of ", name,
                     " is running; wait until it ends");
  }
  const auto result = [&]() -> Result<LocalModel> {
    if (!options.force) {
      if (auto before = pulled_before(options, name)) return *std::move(before);
    }
    if (options.offline && !fs::is_regular_file(options.source, failed)) {
      return Error::of(ErrorCode::kNotFound, name,
                       " is not on this disk, and --offline forbids fetching it");
    }
    client::HttpClient http(interrupted);
    TRY(const Files files, find_files(http, options, name));
    std::vector<std::string> wanted(files.parts.size(), options.sha256);
    if (files.local) {
      TRY_VOID(copy_all(files, name, options.quiet));
    } else {
      TRY(wanted, download_all(http, files, options, name));
    }
    return admit(files, name, wanted, options.quiet);
  }();
  ::close(lock);
  return result;
}

int run_pull(const PullOptions& options, bool json) {
  auto model = pull_model(options);
  if (!model.ok()) return fail(model.error());
  if (json) {
    nlohmann::json json{{"name", model->name},
                        {"path", model->path.string()},
                        {"bytes", model->bytes},
                        {"sha256", model->sha256},
                        {"source", model->source}};
    if (!model->part_sha256.empty()) json["part_sha256"] = model->part_sha256;
    print_line("{}", json.dump());
  } else {
    std::fprintf(stderr, "success: %s (%s)\n", model->name.c_str(),
                 format_bytes(model->bytes).c_str());
    std::printf("%s\n", model->path.c_str());
  }
  return kExitDone;
}

}  // namespace hearth::cli
