// hearth manifest writes the hash of each tensor of a model. hearth pull --layers fetches the bytes
// of some layers only, verified against a manifest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace hearth::cli {

struct ManifestOptions {
  std::string model;  // file or pulled name
  std::string out;    // empty: the model's path and ".manifest"
  bool json = false;
};
int run_manifest(const ManifestOptions& options);

struct PullLayersOptions {
  // http(s)://..., hf:org/repo/file[@revision] or hf:org/repo[:quantisation][@revision]; of a model
  // in parts that of the first.
  std::vector<std::string> sources;
  std::string manifest;  // file
  std::string layers;    // "0-9", both included
  std::string folder;    // folder of the sparse file; empty: cache_dir()/layers
  // Folders to search for whole files, in addition to the usual ones.
  std::vector<std::string> model_folders;
  std::uint32_t connections = 4;
  std::uint32_t stall_seconds = 30;
  bool offline = false;
  bool quiet = false;
  bool json = false;
};
int run_pull_layers(const PullLayersOptions& options);

// "3-7" or "3": layers 3 to 7, or 3 alone. Nothing for anything else.
std::optional<LayerRange> parse_layers(const std::string& text);

}  // namespace hearth::cli
