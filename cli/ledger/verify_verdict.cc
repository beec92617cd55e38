#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/ledger/audit.h"
#include "cli/ledger/verify.h"
#include "cli/models/models.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/print_line.h"
#include "cli/terminal/progress.h"
#include "cli/worker/known_answers.h"
#include "ledger/dispute/evidence.h"
#include "node/proof/recompute.h"

namespace hearth::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;
using SteadyClock = std::chrono::steady_clock;

struct Repeated {
  ledger::VerdictEvidence evidence;
  ledger::CheckedEvidence checked;
  bool is_computed = false;
  double seconds = 0.0;
};

Result<ledger::RefereeFinding> compute(const VerifyOptions& options, const std::string& path,
                                       const ledger::RefereeCase& request) {
  node::RefereeOptions referee;
  referee.threads = options.machine.threads > 0 ? options.machine.threads
                                                : std::max(1U, std::thread::hardware_concurrency());
  referee.with_true_answer = false;
  ProgressBar bar("computing again, layer by layer", request.split.back().end, 0);
  node::RecomputeEvents events;
  events.stopped = [] { return interrupted(); };
  events.progress = [&bar](std::uint64_t done, std::uint64_t) { bar.set(done); };
  auto found = node::compute_case(path, request, referee, events);
  bar.finish();
  return found;
}

// kInvalidInput means that the verdict is not proved. All other errors are faults of this machine.
Status recompute(const VerifyOptions& options, Repeated& repeated) {
  if (options.machine.model.empty()) {
    return Error{ErrorCode::kNotFound,
                 "the evidence of a verdict names no model file; give one with --model"};
  }
  TRY(const auto path, resolve_model(options.machine.model));
  TRY(const auto file, model::GgufFile::open(path.string()));
  TRY(const model::ModelSpec spec, model::ModelSpec::read(*file));
  TRY(const ReceiptModel of_file,
      check_model(*file, path.string(), spec, repeated.checked.receipts));
  REQUIRE(!of_file.difference, of_file.difference->text);
  const auto begun = SteadyClock::now();
  TRY(const ledger::RefereeFinding claimed,
      compute(options, path.string(), repeated.checked.claimed));
  std::optional<ledger::RefereeFinding> audited;
  if (repeated.checked.audited) {
    TRY(audited, compute(options, path.string(), *repeated.checked.audited));
  }
  TRY_VOID(ledger::check_ruling(repeated.evidence, repeated.checked, claimed,
                                audited ? &*audited : nullptr));
  repeated.is_computed = true;
  repeated.seconds = std::chrono::duration<double>(SteadyClock::now() - begun).count();
  return ok_status();
}

Result<Repeated> repeat(const VerifyOptions& options, std::string_view text) {
  Repeated out;
  TRY(out.evidence, ledger::parse_evidence(as_bytes(text)));
  REQUIRE(options.key.empty() || out.evidence.cluster.hex() == options.key,
          "the evidence is of cluster ", out.evidence.cluster.hex(),
          ", not of the cluster in --key");
  TRY(out.checked, ledger::check_evidence(out.evidence));
  if (options.re_execute) TRY_VOID(recompute(options, out));
  return out;
}

void print_json(const Repeated& repeated) {
  const ledger::VerdictEvidence& evidence = repeated.evidence;
  const bool is_auditor = evidence.guilty == evidence.seal.auditor;
  OrderedJson json = {{"sound", true},
                      {"cluster", evidence.cluster.hex()},
                      {"entry", evidence.entry},
                      {"verdict", ledger::verdict_name(evidence.verdict)},
                      {"guilty", evidence.guilty.hex()},
                      {"side", is_auditor ? "auditor" : "worker"},
                      {"window", evidence.place.window},
                      {"stage", evidence.place.stage},
                      {"computed_again", repeated.is_computed}};
  if (repeated.is_computed) {
    json["positions"] = repeated.checked.claimed.positions;
    json["seconds"] = repeated.seconds;
  }
  print_line("{}", json.dump());
}

void print_text(const Repeated& repeated) {
  const ledger::VerdictEvidence& evidence = repeated.evidence;
  const bool is_auditor = evidence.guilty == evidence.seal.auditor;
  print_line("{} of the {} {}: all signatures and signed values agree",
             ledger::verdict_name(evidence.verdict), is_auditor ? "auditor" : "worker",
             evidence.guilty.hex());
  print_line("  dispute       entry {}, {}, cluster {}", evidence.entry,
             ledger::place_name(evidence.place), evidence.cluster.hex());
  if (repeated.is_computed) {
    print_line("  computed again: the same side is false, over {} positions ({:.1f} s)",
               repeated.checked.claimed.positions, repeated.seconds);
  } else {
    print_line("  not computed  --re-execute --model FILE does that");
  }
  print_line("  discloses     the prompt and the answer: keep the file as you keep them");
}

}  // namespace

bool is_verdict_evidence(std::string_view text) {
  return text.starts_with(ledger::kVerdictEvidence);
}

int run_verify_verdict(const VerifyOptions& options, std::string_view text) {
  if (options.re_execute) {
    catch_interrupts();
    if (const int code = check_known_answers(); code != kExitDone) return code;
  }
  const auto repeated = repeat(options, text);
  if (!repeated && repeated.error().code != ErrorCode::kInvalidInput) return fail(repeated.error());
  if (!repeated) {
    const std::string& fault = repeated.error().message;
    return not_proved(options.receipt + " does not prove its verdict: " + fault, fault,
                      options.json);
  }
  options.json ? print_json(*repeated) : print_text(*repeated);
  return kExitDone;
}

}  // namespace hearth::cli
