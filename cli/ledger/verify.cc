#include "cli/ledger/verify.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/hex.h"
#include "base/ids.h"
#include "cli/ledger/audit.h"
#include "cli/process/paths.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/print_line.h"
#include "cli/worker/known_answers.h"
#include "coordinator/store/stored_log.h"
#include "ledger/lookup.h"

namespace hearth::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The input: receipts and, to recompute, the answer.
struct Asked {
  ledger::AnswerName name{};
  std::optional<client::SavedAnswer> saved;
};

// What was verified, and how long the check of the receipts took, without finding them.
struct VerifiedAnswer {
  ledger::Checkpoint checkpoint;
  std::vector<ledger::LoggedReceipt> found;
  std::vector<ledger::LoggedAudits> audits;  // of `found`
  std::vector<ledger::Receipt> receipts;
  double milliseconds = 0.0;
  std::optional<Reexecuted> again;
  bool says_verified = false;  // the saved answer does
};

Result<ledger::AnswerName> parse_name(const std::string& text) {
  ledger::AnswerName name{};
  std::string digits = text;
  for (char& c : digits) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  const auto bytes = from_hex(digits);
  REQUIRE(bytes && bytes->size() == name.size(), "a receipt is ", 2 * name.size(),
          " hex digits: the field hearth.receipt or the header x-hearth-receipt of an answer");
  std::ranges::copy(*bytes, name.begin());
  return name;
}

Result<Asked> read_asked(const VerifyOptions& options) {
  Asked out;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(options.receipt, ignored)) {
    TRY(out.name, parse_name(options.receipt));
    REQUIRE(!options.re_execute && options.request.empty(),
            "a receipt does not contain the request, which --re-execute and --request need: pass "
            "the file of hearth run --receipt, or a saved answer with --request FILE");
    return out;
  }
  TRY(const std::string answer, read_text(options.receipt, client::kSavedAnswerBytes));
  std::string request;
  if (!options.request.empty()) {
    TRY(request, read_text(options.request, client::kSavedAnswerBytes));
  }
  TRY(out.saved, client::read_saved_answer(answer, request));
  TRY(out.name, parse_name(out.saved->receipt));
  return out;
}

Result<VerifiedAnswer> verify(const VerifyOptions& options, const ledger::AnswerName& name,
                              ledger::LogFolder& folder) {
  VerifiedAnswer out;
  TRY(out.checkpoint, ledger::read_checkpoint(folder));
  REQUIRE(options.key.empty() || out.checkpoint.log.hex() == options.key,
          "--key: the log is signed by ", out.checkpoint.log.hex(), ", not by this key");
  TRY(out.found, ledger::find_receipts(folder, out.checkpoint, name));
  REQUIRE(!out.found.empty(),
          "the log has no receipt of this answer: the server logs receipts within a second after "
          "the answer, and an answer has none when its worker was lost or made no receipts");
  const auto begin = std::chrono::steady_clock::now();
  TRY(out.receipts, ledger::check_receipts(folder, out.checkpoint, out.found));
  const auto took = std::chrono::steady_clock::now() - begin;
  out.milliseconds = std::chrono::duration<double, std::milli>(took).count();
  TRY(out.audits, ledger::find_audits(folder, out.checkpoint, out.found));
  for (std::size_t i = 0; i < out.found.size(); ++i) {
    const ledger::LoggedAudits& said = out.audits[i];
    const std::string what = "entry " + std::to_string(out.found[i].entry) + ": ";
    REQUIRE(!said.worker, what,
            "an audit found another result, and the verdict is that the worker's result is false");
    REQUIRE(said.differed == 0 || said.auditor, what,
            "an audit found another result, and the ledger has no verdict yet");
  }
  return out;
}

void print_verified_json(const VerifiedAnswer& verified) {
  OrderedJson receipts = OrderedJson::array();
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
  OrderedJson audits = OrderedJson::array();
  for (std::size_t i = 0; i < verified.found.size(); ++i) {
    audits.push_back({{"entry", verified.found[i].entry}, {"agreed", verified.audits[i].agreed}});
  }
  OrderedJson json = {{"sound", true},
                      {"key", verified.checkpoint.log.hex()},
                      {"entries", verified.checkpoint.size},
                      {"milliseconds", verified.milliseconds},
                      {"receipts", std::move(receipts)},
                      {"audits", std::move(audits)}};
  if (verified.again) {
    json["computed_again"] = {{"choices", verified.again->choices},
                              {"positions", verified.again->positions},
                              {"seconds", verified.again->seconds}};
    if (verified.says_verified) json["not_compared"] = {"hearth.verified"};
  }
  print_line("{}", json.dump());
}

void print_text(const VerifiedAnswer& verified) {
  print_line("{}, each signed, in the log's tree, and one with its neighbours",
             counted(verified.receipts.size(), "receipt"));
  print_line("  log           {}, {} entries", verified.checkpoint.log.hex(),
             verified.checkpoint.size);
  for (const ledger::Receipt& r : verified.receipts) {
    print_line("  positions     {} to {}, layers {}, by {}", r.first_position,
               r.first_position + r.positions, text_of(LayerRange{r.layer_begin, r.layer_end}),
               r.worker.hex());
  }
  const auto audited = std::ranges::count_if(
      verified.audits, [](const ledger::LoggedAudits& one) { return one.agreed > 0; });
  print_line("  audited       {} of them, by other nodes with the same result", audited);
  print_line("  checked in    {:.1f} ms", verified.milliseconds);
  if (!verified.again) return;
  print_line("  computed again: the answer and every root of {} positions are equal ({:.1f} s)",
             verified.again->positions, verified.again->seconds);
  if (!verified.says_verified) return;
  print_line(
      "  not compared  the field hearth.verified of the answer: only the server states it, and no "
      "node signs it");
}

// The receipts are sound, but the answer or a worker's result is wrong.
int print_difference(const node::Difference& difference, bool json) {
  if (json) {
    OrderedJson where = {{"what", differs_name(difference.what)}};
    if (difference.choice) where["choice"] = *difference.choice;
    if (difference.window) where["window"] = *difference.window;
    if (difference.stage) where["stage"] = *difference.stage;
    if (difference.position) where["position"] = *difference.position;
    print_escaped({{"sound", false}, {"fault", difference.text}, {"differs", std::move(where)}});
  }
  return not_proved("the recomputed answer differs from the receipts: " + difference.text, "",
                    false);
}

}  // namespace

int run_verify(const VerifyOptions& options) {
  if (options.receipt.empty()) {
    return fail(
        Error::invalid("no receipt given: pass a receipt id or an answer file, for example hearth "
                       "verify answer.json"));
  }
  std::error_code ignored;
  if (std::filesystem::is_regular_file(options.receipt, ignored)) {
    const auto text = read_text(options.receipt, client::kSavedAnswerBytes);
    if (text && is_verdict_evidence(*text)) return run_verify_verdict(options, *text);
  }
  const auto asked = read_asked(options);
  if (!asked) return fail(asked.error());
  const std::string data = data_folder(options.folder);
  const std::string path = log_folder(data);
  auto folder = coordinator::open_log_to_read(data, path, options.archive);
  if (!folder) return fail(folder.error());
  auto verified = verify(options, asked->name, **folder);
  if (verified && options.re_execute) {
    catch_interrupts();
    if (const int code = check_known_answers(); code != kExitDone) return code;
    auto again = reexecute(options.machine, *asked->saved, asked->name, verified->receipts);
    if (!again) return fail(again.error());
    if (again->difference) return print_difference(*again->difference, options.json);
    verified->again = std::move(*again);
    verified->says_verified = asked->saved->says_verified;
  }
  if (verified) {
    options.json ? print_verified_json(*verified) : print_text(*verified);
    return kExitDone;
  }
  const std::string& message = verified.error().message;
  if (verified.error().code != ErrorCode::kInvalidInput) {
    return fail({verified.error().code, path + ": " + message});
  }
  return not_proved("the log in " + path + " does not prove it: " + message, message, options.json);
}

}  // namespace hearth::cli
