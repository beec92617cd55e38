// What a browser may ask this API: DNS rebinding is stopped by the Host header, pages of other
// sites by the Origin header. Defaults are ollama's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hearth::coordinator::http {

// The names of this machine beside those of loopback.
struct HostNames {
  std::vector<std::string> names;
  // Any address too: reached over a network, it has one that a name server cannot have chosen.
  bool any_address = false;
};

// A Host header (or the authority of an absolute target) that names this machine: localhost,
// *.localhost, 127.0.0.0/8, [::1], or one of `names`. Any port.
bool host_allowed(std::string_view host, const HostNames& names);

// An Origin on this machine (http or https on localhost, a loopback address or one of the names),
// or on the very host that was asked, or of a desktop shell: app://, file://, tauri://,
// vscode-webview://, vscode-file://. `host`: an allowed Host header, or empty.
bool origin_allowed(std::string_view origin, std::string_view host, const HostNames& names);

// "%41" decoding of a path. False for a broken escape, a NUL or a control character.
bool decode_path(std::string_view raw, std::string& out);

}  // namespace hearth::coordinator::http
