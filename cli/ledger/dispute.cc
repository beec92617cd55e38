#include "cli/ledger/dispute.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hex.h"
#include "cli/models/models.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/progress.h"
#include "ledger/dispute.h"
#include "model/gguf/gguf.h"
#include "model/gguf/manifest.h"
#include "node/proof/trace_check.h"

namespace hearth::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Checked {
  ledger::DisputeFile file;
  ledger::CheckedCase of;
  node::DisputeFinding finding;
};

// A plain file of a size that one can have; anything else may never end.
Result<Bytes> read_all(const std::string& path) {
  const auto unreadable = [&path] {
    return Error{ErrorCode::kIo, "cannot read " + path + ": " + std::strerror(errno)};
  };
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return unreadable();
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(::fdopen(descriptor, "rb"),
                                                             &std::fclose);
  if (!file) return unreadable();
  struct stat found {};
  if (::fstat(descriptor, &found) != 0) return unreadable();
  if (!S_ISREG(found.st_mode)) return Error{ErrorCode::kIo, path + " is no plain file"};
  const auto size = static_cast<std::size_t>(found.st_size);
  REQUIRE(size <= ledger::kDisputeFileBytes, "it has " + std::to_string(size) +
                                                 " bytes, and a dispute's file at most " +
                                                 std::to_string(ledger::kDisputeFileBytes));
  Bytes out(size);
  if (std::fread(out.data(), 1, size, file.get()) != size) return unreadable();
  return out;
}

// The file of a model, when it is the one that the receipts are of.
Result<std::shared_ptr<const model::GgufFile>> open_model(const std::string& name,
                                                          const Hash256& of) {
  TRY(const auto path, resolve_model(name));
  TRY(const auto file, model::GgufFile::open(path.string()));
  if (blake2b(as_bytes(file->fingerprint().hex())) == of) return file;
  ProgressBar bar("hashing the model", file->file_bytes(), 0);
  TRY(const model::Manifest manifest, model::make_manifest(*file, [&bar](std::uint64_t done) {
        bar.set(done);
        return true;
      }));
  bar.finish();
  REQUIRE(manifest.id() == of, "the dispute is of another model than " + path.string());
  return file;
}

Result<Checked> check(const DisputeOptions& options, const std::optional<Bytes>& key) {
  Checked out;
  TRY(const Bytes bytes, read_all(options.file));
  TRY(out.file, ledger::parse_dispute(bytes));
  TRY(out.of, ledger::check_case(out.file.said));
  REQUIRE(!key || std::ranges::equal(out.file.said.cluster.bytes(), *key),
          "the dispute is of cluster " + out.file.said.cluster.hex() +
              ", not of the one that is given");
  std::shared_ptr<const model::GgufFile> model;
  if (!options.model.empty()) {
    TRY(model, open_model(options.model, out.file.model));
  }
  TRY(out.finding, node::check_dispute(out.file, model.get()));
  return out;
}

// What one who has the file can read.
std::vector<std::string_view> disclosed(const ledger::DisputeFile& file) {
  std::vector<std::string_view> out = {"salt"};
  if (file.evidence) out.emplace_back("activations");
  if (file.tokens) out.emplace_back("tokens");
  return out;
}

std::string_view weights_text(const Checked& checked) {
  if (!checked.finding.found) return "none";
  if (checked.finding.weights_tied) return "model";
  return checked.finding.weights_agreed ? "signed by both" : "not known";
}

void print_json(const Checked& checked) {
  const ledger::Receipt& receipt = checked.of.disputed();
  Json guilty = Json::array();
  for (std::size_t i = 0; i < ledger::kDisputeSides; ++i) {
    if (checked.finding.decided && checked.finding.wrong[i]) {
      guilty.push_back(ledger::side_name(static_cast<ledger::DisputeSide>(i)));
    }
  }
  Json where = {{"stage", receipt.slot.stage}, {"window", receipt.slot.window}};
  if (checked.finding.found) {
    const ledger::DisputeFound& found = *checked.finding.found;
    where["position"] = found.position;
    where["layer"] = found.what.layer;
    where["operation"] = ledger::trace_op_name(found.what.op);
    where["element"] = found.element;
  }
  const Json json = {{"decided", checked.finding.decided},
                     {"guilty", std::move(guilty)},
                     {"why", checked.finding.why},
                     {"where", std::move(where)},
                     {"weights", weights_text(checked)},
                     {"moves", checked.file.moves.size()},
                     {"cluster", checked.file.said.cluster.hex()},
                     {"request", to_hex(receipt.slot.request)},
                     {"entry", checked.file.said.seal.receipt},
                     {"worker", receipt.worker.hex()},
                     {"auditor", checked.file.said.seal.auditor.hex()},
                     {"discloses", disclosed(checked.file)}};
  std::printf("%s\n",
              escape_json(json.dump(-1, ' ', false, Json::error_handler_t::replace)).c_str());
}

void print_text(const Checked& checked) {
  const ledger::Receipt& receipt = checked.of.disputed();
  const node::DisputeFinding& finding = checked.finding;
  std::printf("%s\n", finding.why.c_str());
  std::printf("  dispute       request %s, stage %u, window %u, layers %s\n",
              to_hex(receipt.slot.request).c_str(), receipt.slot.stage, receipt.slot.window,
              text_of(LayerRange{receipt.layer_begin, receipt.layer_end}).c_str());
  for (std::size_t i = 0; i < ledger::kDisputeSides; ++i) {
    const auto side = static_cast<ledger::DisputeSide>(i);
    const char* word = !finding.decided ? "not judged" : finding.wrong[i] ? "wrong" : "not wrong";
    std::printf("  %-13s %s: %s\n", std::string(ledger::side_name(side)).c_str(),
                checked.of.key(side).hex().c_str(), word);
  }
  if (finding.found) {
    std::printf("  where         stage %u, position %u, layer %u, %s, element %u\n",
                receipt.slot.stage, finding.found->position, finding.found->what.layer,
                std::string(ledger::trace_op_name(finding.found->what.op)).c_str(),
                finding.found->element);
    if (finding.weights_tied) {
      std::printf("  weights       those of the model, or none\n");
    } else if (finding.weights_agreed) {
      std::printf(
          "  weights       both have signed the same; that they are the model's, --model "
          "shows\n");
    }
  }
  std::printf("  moves         %zu, each signed\n", checked.file.moves.size());
  std::string what;
  for (const std::string_view part : disclosed(checked.file)) {
    what += (what.empty() ? "" : ", ") + std::string(part);
  }
  std::printf("  discloses     %s: keep it as you keep the prompt\n", what.c_str());
}

}  // namespace

int run_dispute(const DisputeOptions& options) {
  std::optional<Bytes> key;
  if (!options.key.empty()) {
    key = from_hex(options.key);
    if (!key || key->size() != PublicKey::kBytes) {
      return fail(Error::invalid("--key: a cluster's key is 64 hex digits"));
    }
  }
  const auto checked = check(options, key);
  if (!checked) {
    if (checked.error().code != ErrorCode::kInvalidInput) return fail(checked.error());
    if (options.json) {
      const Json out = {{"decided", false}, {"fault", checked.error().message}};
      std::printf("%s\n",
                  escape_json(out.dump(-1, ' ', false, Json::error_handler_t::replace)).c_str());
    }
    (void)fail(Error::invalid(options.file + " proves nothing: " + checked.error().message));
    return kExitVerification;
  }
  options.json ? print_json(*checked) : print_text(*checked);
  return checked->finding.decided ? kExitDone : kExitVerification;
}

}  // namespace hearth::cli
