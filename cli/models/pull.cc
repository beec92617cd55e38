#include "cli/models/pull.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
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

// One resumable download into `partial`.
class Download {
 public:
  Download(client::HttpClient& http, const Remote& remote, fs::path partial, std::string label,
           bool quiet)
      : http_(http),
        remote_(remote),
        partial_(std::move(partial)),
        label_(std::move(label)),
        quiet_(quiet) {}

  Status run() {
    TRY_VOID(match_earlier());
    Error last;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const std::uint64_t before = have();
      Status status = once();
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

  Status once() {
    const std::uint64_t offset = have();
    if (remote_.bytes > 0 && offset == remote_.bytes) return ok_status();
    const int fd = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return io_error("cannot write", partial_);
    Status status = transfer(fd, offset);
    if (::close(fd) != 0 && status.ok()) status = io_error("cannot write", partial_);
    return status;
  }

  Status transfer(int fd, std::uint64_t offset) {
    if (::lseek(fd, static_cast<off_t>(offset), SEEK_SET) < 0) {
      return io_error("cannot write", partial_);
    }
    const std::string shown = client::without_secrets(remote_.url);
    std::uint64_t done = offset;
    ProgressBar bar(label_, remote_.bytes, offset, quiet_);
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
      bar.set(done);
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
      return Error{ErrorCode::kUnavailable, shown + " has nothing after byte " +
                                                std::to_string(offset) + "; pull again to restart"};
    }
    if (reply.status >= 500 || reply.status == 429 || reply.status == 408) {
      return Error{ErrorCode::kUnavailable, shown + " answers " + std::to_string(reply.status)};
    }
    if (reply.status >= 400) {
      return Error{ErrorCode::kNotFound,
                   shown + " answers " + std::to_string(reply.status) + "; check the address"};
    }
    bar.finish();
    return ok_status();
  }

  client::HttpClient& http_;
  const Remote& remote_;
  fs::path partial_;
  std::string label_;
  bool quiet_;
};

// Where the file system can, both files share their blocks until one of them changes.
bool clone_file(const fs::path& from, const fs::path& to) {
  const int in = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
  const int out = ::open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const bool cloned = in >= 0 && out >= 0 && ::ioctl(out, FICLONE, in) == 0;
  for (const int fd : {in, out}) {
    if (fd >= 0) ::close(fd);
  }
  return cloned;
}

// A link would change with the file.
Status copy_local(const fs::path& from, const fs::path& partial, bool quiet) {
  std::error_code failed;
  fs::remove(partial, failed);
  if (clone_file(from, partial)) return ok_status();
  std::ifstream in(from, std::ios::binary);
  std::ofstream out(partial, std::ios::binary);
  if (!in) return io_error("cannot read", from);
  ProgressBar bar("copying " + from.filename().string(), fs::file_size(from, failed), 0, quiet);
  std::vector<char> buffer(1 << 20);
  std::uint64_t done = 0;
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0) {
    if (interrupted()) return Error{ErrorCode::kCancelled, "interrupted"};
    out.write(buffer.data(), in.gcount());
    if (!out) return io_error("cannot write", partial);
    bar.set(done += static_cast<std::uint64_t>(in.gcount()));
  }
  out.close();
  if (!out) return io_error("cannot write", partial);
  bar.finish();
  return ok_status();
}

std::string name_of(const PullOptions& options) {
  if (!options.name.empty()) return options.name;
  std::string path = options.source;
  if (path.starts_with("hf:")) {
    if (const auto at = path.rfind('@'); at != std::string::npos) path.resize(at);
  } else if (const auto query = path.find_first_of("?#");
             query != std::string::npos && path.find("://") != std::string::npos) {
    path.resize(query);
  }
  return model_name(path);
}

// Writes the bytes to `partial`. Returns the digest they must have; empty: any.
Result<std::string> bring(const PullOptions& options, const fs::path& partial) {
  std::error_code ignored;
  if (fs::is_regular_file(options.source, ignored)) {
    TRY_VOID(copy_local(options.source, partial, options.quiet));
    return options.sha256;
  }
  client::HttpClient http(interrupted);
  Remote remote;
  if (options.source.starts_with("hf:")) {
    TRY(remote, resolve_hub(http, options.source.substr(3)));
  } else if (options.source.find("://") != std::string::npos) {
    TRY_VOID(check_url(options.source));
    remote.url = options.source;
    TRY(client::HttpReply reply, http.head(remote.url, {std::chrono::seconds(20), {}, true}));
    if (reply.status < 400 && reply.headers.contains("content-length")) {
      const auto& size = reply.headers["content-length"];
      if (size.size() < 19 && size.find_first_not_of("0123456789") == size.npos && !size.empty()) {
        remote.bytes = std::stoull(size);
      }
    }
  } else {
    return Error{ErrorCode::kNotFound,
                 "source \"" + options.source +
                     "\": not a file and not a pulled model; pass a path, https://... or "
                     "hf:org/repo/file (deploy/quickstart fetches the demo model "
                     "smollm2-135m)"};
  }
  if (!options.sha256.empty()) remote.sha256 = options.sha256;
  TRY_VOID(Download(http, remote, partial, name_of(options), options.quiet).run());
  return remote.sha256;
}

// As it may be shown and kept; a path is no address.
std::string shown_source(const std::string& source) {
  return source.find("://") == std::string::npos ? source : client::without_secrets(source);
}

// What to do about a file that is not a model but a page about it.
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

// Verifies the file and renames it to its final name.
Result<LocalModel> admit(const PullOptions& options, const fs::path& partial,
                         const fs::path& target, const std::string& wanted) {
  const std::string source = shown_source(options.source);
  TRY(std::string digest, sha256_of_file(partial, "verifying sha256", options.quiet));
  if (!wanted.empty() && digest != wanted) {
    std::error_code ignored;
    fs::remove(partial, ignored);
    return Error::invalid("SHA-256 of " + source + " is " + digest + ", expected " + wanted +
                          "; the bad copy is deleted, pull again");
  }
  auto parsed = model::GgufFile::open(partial.string());
  if (!parsed.ok()) {
    const std::string hint = page_hint(partial, source);
    std::error_code ignored;
    fs::remove(partial, ignored);
    return Error::invalid(source + " is not a usable GGUF file: " + parsed.error().message + hint);
  }
  std::error_code failed;
  fs::rename(partial, target, failed);
  if (failed) return Error{ErrorCode::kIo, "cannot create " + target.string()};
  fs::remove(partial.string() + ".json", failed);
  LocalModel model;
  model.name = target.stem().string();
  model.path = target;
  model.bytes = fs::file_size(target, failed);
  model.sha256 = digest;
  model.source = source;
  TRY_VOID(write_model_record(model));
  return model;
}

}  // namespace

Result<LocalModel> pull_model(const PullOptions& options) {
  const std::string name = name_of(options);
  TRY_VOID(check_model_name(name));
  REQUIRE(options.sha256.empty() || is_sha256(options.sha256),
          "--sha256: expected 64 lower-case hexadecimal digits");
  std::error_code failed;
  fs::create_directories(models_dir(), failed);
  if (failed) return Error{ErrorCode::kIo, "cannot create " + models_dir().string()};
  std::ofstream(cache_dir() / "CACHEDIR.TAG") << "Signature: 8a477f597d28d172789f06886806bc55\n";

  const fs::path target = models_dir() / (name + ".gguf");
  const fs::path lock_path = models_dir() / ("." + name + ".lock");
  const int lock = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) return io_error("cannot write", lock_path);
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock);
    return Error{ErrorCode::kUnavailable, "another pull of " + name + " is running"};
  }
  const auto result = [&]() -> Result<LocalModel> {
    if (fs::is_regular_file(target, failed) && !options.force) {
      for (LocalModel& model : list_models()) {
        if (model.name == name && (options.sha256.empty() || options.sha256 == model.sha256)) {
          return model;
        }
      }
    }
    if (options.offline && !fs::is_regular_file(options.source, failed)) {
      return Error{ErrorCode::kNotFound,
                   name + " is not on this disk, and --offline forbids fetching it"};
    }
    const fs::path partial = models_dir() / ("." + name + ".incomplete");
    TRY(std::string wanted, bring(options, partial));
    if (!options.sha256.empty()) wanted = options.sha256;
    return admit(options, partial, target, wanted);
  }();
  ::close(lock);
  return result;
}

int run_pull(const PullOptions& options, bool json) {
  auto model = pull_model(options);
  if (!model.ok()) return fail(model.error());
  if (json) {
    print_line("{}", nlohmann::json{{"name", model->name},
                                    {"path", model->path.string()},
                                    {"bytes", model->bytes},
                                    {"sha256", model->sha256},
                                    {"source", model->source}}
                         .dump());
  } else {
    std::fprintf(stderr, "success: %s (%s)\n", model->name.c_str(),
                 format_bytes(model->bytes).c_str());
    std::printf("%s\n", model->path.c_str());
  }
  return kExitDone;
}

}  // namespace hearth::cli
