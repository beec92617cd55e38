#include "cli/models/pull_layers.h"

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "base/private_file.h"
#include "cli/models/hub.h"
#include "cli/models/model_finder.h"
#include "cli/models/models.h"
#include "cli/models/parts_source.h"
#include "cli/process/paths.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/print_line.h"
#include "cli/terminal/progress.h"
#include "model/gguf/gguf.h"
#include "model/gguf/manifest.h"
#include "node/layers/model_fetch.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;
using model::Manifest;

Result<Manifest> hash_model(const fs::path& path) {
  TRY(const auto file, model::GgufFile::open(path.string()));
  ProgressBar bar("hashing " + path.filename().string(), file->file_bytes(), 0);
  const auto progress = [&](std::uint64_t done) {
    bar.set(done);
    return !interrupted();
  };
  TRY(Manifest manifest, model::make_manifest(*file, progress));
  bar.finish();
  return manifest;
}

Status write_whole(const std::string& path, const Bytes& bytes) {
  const std::string draft = path + ".new";
  std::ofstream file(draft, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file || std::rename(draft.c_str(), path.c_str()) != 0) {
    return Error::of(ErrorCode::kIo, "cannot write ", path);
  }
  return ok_status();
}

Result<std::string> write_manifest(const ManifestOptions& options, std::size_t& tensors) {
  TRY(const fs::path path, resolve_model(options.model));
  TRY(const Manifest manifest, hash_model(path));
  tensors = manifest.tensors.size();
  const std::string out = options.out.empty() ? path.string() + ".manifest" : options.out;
  TRY_VOID(write_whole(out, model::encode_manifest(manifest, {})));
  return out;
}

// Any server will do: what it sends is checked against the manifest.
Status check_source(const std::string& source) {
  const bool known =
      source.starts_with("hf:") || source.starts_with("https://") || source.starts_with("http://");
  REQUIRE(known, "source ", source,
          ": give https://..., http://..., hf:org/repo:Q4_K_M or hf:org/repo/file");
  return ok_status();
}

Result<node::Fetched> pull_layers(const PullLayersOptions& options) {
  TRY(const std::string text, read_text(options.manifest, limits::kManifestBytes));
  TRY(const Manifest manifest, model::parse_manifest(as_bytes(text), {}));
  const auto layers = parse_layers(options.layers);
  REQUIRE(layers, "layers '", options.layers,
          "': must be a range of layers such as 0-9, or one layer such as 3");
  TRY(const auto tensors, model::stage_tensors(manifest, *layers));

  node::FetchOptions fetch;
  fetch.folder = options.folder.empty() ? (cache_dir() / "layers").string() : options.folder;
  TRY_VOID(make_private_folder(fetch.folder));
  fetch.files = models_of_size(model_folders(options.model_folders), manifest.file_bytes);
  fetch.connections = options.connections;
  fetch.cancelled = [] { return interrupted(); };
  fetch.warn = [](const std::string& text) {
    std::fprintf(stderr, "hearth: %s\n", escape_lines(text).c_str());
  };
  client::HttpClient http(interrupted);
  for (std::string source : options.sources) {
    if (options.offline) break;
    TRY_VOID(check_source(source));
    if (const auto request = hub_request(source)) {
      TRY(source, choose_in_hub(http, *request));
    }
    TRY(fetch.sources.emplace_back(), open_source(http, source, manifest.file_bytes,
                                                  std::chrono::seconds(options.stall_seconds)));
  }
  std::optional<ProgressBar> bar;
  fetch.progress = [&](std::uint64_t done, std::uint64_t total) {
    if (!bar) bar.emplace("layers " + options.layers, total, done, options.quiet);
    bar->set(done);
  };
  auto fetched = node::fetch_tensors(manifest, tensors, fetch);
  if (fetched.ok() && bar) bar->finish();
  if (!fetched.ok() && fetched.error().code == ErrorCode::kNotFound && options.offline) {
    return Error::of(ErrorCode::kNotFound, fetched.error().message, " (--offline)");
  }
  return fetched;
}

}  // namespace

std::optional<LayerRange> parse_layers(const std::string& text) {
  const char* const end = text.data() + text.size();
  LayerRange layers;
  auto at = std::from_chars(text.data(), end, layers.begin);
  if (at.ec != std::errc() || layers.begin >= limits::kModelLayers) return std::nullopt;
  std::uint32_t last = layers.begin;
  if (at.ptr != end) {
    if (*at.ptr != '-') return std::nullopt;
    at = std::from_chars(at.ptr + 1, end, last);
    if (at.ec != std::errc() || at.ptr != end) return std::nullopt;
  }
  if (last < layers.begin || last >= limits::kModelLayers) return std::nullopt;
  layers.end = last + 1;
  return layers;
}

int run_manifest(const ManifestOptions& options) {
  catch_interrupts();
  std::size_t tensors = 0;
  const auto path = write_manifest(options, tensors);
  if (!path.ok()) return fail(path.error());
  if (options.json) {
    std::printf("%s\n", nlohmann::json{{"path", *path}, {"tensors", tensors}}.dump().c_str());
  } else {
    std::printf("%s\n", path->c_str());
  }
  return kExitDone;
}

int run_pull_layers(const PullLayersOptions& options) {
  catch_interrupts();
  const auto fetched = pull_layers(options);
  if (!fetched.ok()) return fail(fetched.error());
  if (options.json) {
    print_line("{}", nlohmann::json{{"path", fetched->path},
                                    {"in_place", fetched->in_place},
                                    {"bytes", fetched->wanted},
                                    {"fetched", fetched->fetched}}
                         .dump());
  } else {
    std::fprintf(stderr, "success: layers %s, %s of them fetched now\n", options.layers.c_str(),
                 format_bytes(fetched->fetched).c_str());
    std::printf("%s\n", fetched->path.c_str());
  }
  return kExitDone;
}

}  // namespace hearth::cli
