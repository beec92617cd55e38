#include "coordinator/http/generation/listener.h"

#include <algorithm>
#include <utility>

#include "coordinator/http/api/api.h"
#include "coordinator/http/wire/sse.h"

namespace hearth::coordinator::http {

void Listener::begin(HeaderFields headers) {
  if (std::exchange(streams_, true) || gone_) return;
  writer_->start_stream(std::move(headers));
}

void Listener::tell(const AnswerHead& head, const Choice& choice, bool ended, OrderedJson closing,
                    const model::Tokenizer& tokenizer) {
  std::uint32_t& told = place_.told[choice.index()];
  const std::uint32_t all = choice.tokens() + 1;
  if (told > all) return;  // its end, or more than this process has again yet
  ChoicePart part = choice.part(std::max(told, 1U) - 1);
  if (told == 0 && head.chat) {
    ChoicePart role;
    role.index = part.index;
    role.first = true;
    role.with_token_ids = part.with_token_ids;
    told = 1;
    send(chunk_object(head, role, {}, tokenizer));
  }
  const bool news = !part.text.empty() || (!ended && !part.token_ids.empty());
  if (all > std::max(told, 1U) && news) {
    told = all;
    send(chunk_object(head, part, {}, tokenizer));
    part.token_ids.clear();
    part.logprobs.clear();
  }
  part.text.clear();
  if (!ended) return;
  part.finish_reason = choice.finish_reason();
  part.with_logprobs = part.with_logprobs && !part.logprobs.empty();
  told = all + 1;
  send(chunk_object(head, part, std::move(closing), tokenizer));
}

void Listener::tell_hearth(const AnswerHead& head, OrderedJson hearth) {
  send(hearth_chunk(head, std::move(hearth)));
}

void Listener::close(const AnswerHead& head, const std::optional<Usage>& usage) {
  if (usage && !std::exchange(place_.usage, true)) send(usage_chunk(head, *usage));
  if (!gone_) writer_->send(sse_event(kSseDone));
  if (!gone_) writer_->finish_stream(false);
}

void Listener::fail(const ApiError& error) {
  if (gone_) return;
  if (!streams_) return writer_->respond(error_response(error));
  writer_->send(sse_event(error_body(error)));
  if (!gone_) writer_->finish_stream(true);
}

void Listener::interrupt() {
  if (!gone_) writer_->finish_stream(true);
}

void Listener::send(const OrderedJson& event) {
  if (gone_) return;
  writer_->send(sse_event(dump(event), with_ids_ ? event_id_text(place_) : std::string()));
}

}  // namespace hearth::coordinator::http
