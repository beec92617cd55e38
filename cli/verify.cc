#include "cli/verify.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/hex.h"
#include "cli/audit.h"
#include "cli/exit_codes.h"
#include "cli/paths.h"
#include "ledger/lookup.h"

namespace hearth::cli {
namespace {

using Json = nlohmann::ordered_json;

// What was verified, and how long that took once it was found.
struct Verified {
  ledger::Checkpoint checkpoint;
  std::vector<ledger::LoggedReceipt> found;
  std::vector<ledger::Receipt> receipts;
  double milliseconds = 0.0;
};

Result<ledger::AnswerName> parse_name(const std::string& text) {
  ledger::AnswerName name{};
  const auto bytes = from_hex(text);
  REQUIRE(bytes && bytes->size() == name.size(),
          "a receipt is " + std::to_string(2 * name.size()) +
              " hex digits, as an answer has them in hearth.receipt and x-hearth-receipt");
  std::ranges::copy(*bytes, name.begin());
  return name;
}

Result<Verified> verify(const VerifyOptions& options, const ledger::AnswerName& name,
                        ledger::LogFolder& folder) {
  Verified out;
  TRY(out.checkpoint, ledger::read_checkpoint(folder));
  REQUIRE(options.key.empty() || out.checkpoint.log.hex() == options.key,
          "the log is of key " + out.checkpoint.log.hex() + ", not of the one that is given");
  TRY(out.found, ledger::find_receipts(folder, out.checkpoint, name));
  REQUIRE(!out.found.empty(),
          "the log has no receipt of this answer; a running server logs within a second of its "
          "end, and none for an answer whose worker was lost or made no receipts");
  const auto begin = std::chrono::steady_clock::now();
  TRY(out.receipts, ledger::check_receipts(folder, out.checkpoint, out.found));
  const auto took = std::chrono::steady_clock::now() - begin;
  out.milliseconds = std::chrono::duration<double, std::milli>(took).count();
  return out;
}

void print_json(const Verified& verified) {
  Json receipts = Json::array();
  for (const ledger::Receipt& r : verified.receipts) {
    receipts.push_back({{"request", to_hex(r.slot.request)},
                        {"window", r.slot.window},
                        {"stage", r.slot.stage},
                        {"stages", r.stages},
                        {"layers", {r.layer_begin, r.layer_end}},
                        {"positions", {r.first_position, r.first_position + r.positions}},
                        {"worker", r.worker.hex()},
                        {"program", r.program.hex()}});
  }
  const Json json = {{"sound", true},
                     {"key", verified.checkpoint.log.hex()},
                     {"entries", verified.checkpoint.size},
                     {"milliseconds", verified.milliseconds},
                     {"receipts", std::move(receipts)}};
  std::printf("%s\n", json.dump().c_str());
}

void print_text(const Verified& verified) {
  std::printf("%zu receipts, each signed, in the log's tree, and one with its neighbours\n",
              verified.receipts.size());
  std::printf("  log           %s, %llu entries\n", verified.checkpoint.log.hex().c_str(),
              static_cast<unsigned long long>(verified.checkpoint.size));
  for (const ledger::Receipt& r : verified.receipts) {
    std::printf("  positions     %u to %u, layers %u to %u, by %s\n", r.first_position,
                r.first_position + r.positions, r.layer_begin, r.layer_end, r.worker.hex().c_str());
  }
  std::printf("  checked in    %.1f ms\n", verified.milliseconds);
}

}  // namespace

int run_verify(const VerifyOptions& options) {
  const auto name = parse_name(options.receipt);
  if (!name) return fail(name.error());
  const std::string path = log_folder(data_folder(options.folder));
  auto folder = ledger::open_log_folder(path, ledger::LogAccess::kRead);
  if (!folder) return fail(folder.error());
  const auto verified = verify(options, *name, **folder);
  if (verified) {
    options.json ? print_json(*verified) : print_text(*verified);
    return kExitDone;
  }
  const Error& error = verified.error();
  if (error.code != ErrorCode::kInvalidInput) {
    return fail({error.code, path + ": " + error.message});
  }
  if (options.json) {
    const Json json = {{"sound", false}, {"fault", error.message}};
    std::printf("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  }
  (void)fail(Error::invalid("the log in " + path + " does not prove it: " + error.message));
  return kExitVerification;
}

}  // namespace hearth::cli
