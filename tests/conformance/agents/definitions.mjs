// The agents: how each is started and configured, how its tools are called, and, in `refused`, which connections it tries
// in spite of its settings.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const PROMPT = "Correct the typo in greeting.txt, write it in capitals to loud.txt and record a note „erledigt“.";

function write(path, content) {
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
}

const claude = {
  name: "claude",
  program: "@anthropic-ai/claude-code/cli-wrapper.cjs",
  template: "objects",
  path: "/v1/messages",
  calls: ({ file, command, note }) => [
    ["Read", { file_path: file }],
    ["Edit", { file_path: file, old_string: "wrold", new_string: "world" }],
    ["Bash", { command, description: "Writes it in capitals" }],
    ["mcp__notes__record", note],
  ],
  prepare: ({ home, url, mcp }) => {
    const servers = join(home, "mcp.json");
    write(servers, { mcpServers: { notes: { type: "stdio", ...mcp } } });
    return {
      env: {
        ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: "none", ANTHROPIC_MODEL: "scripted", ANTHROPIC_SMALL_FAST_MODEL: "scripted",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", DISABLE_AUTOUPDATER: "1", DISABLE_TELEMETRY: "1",
        DISABLE_ERROR_REPORTING: "1",
      },
      args: [
        "-p", PROMPT, "--mcp-config", servers, "--strict-mcp-config",
        "--allowedTools", "Read", "Edit", "Bash", "mcp__notes__record",
      ],
    };
  },
};

const codex = {
  name: "codex",
  program: ".bin/codex",
  template: "objects",
  path: "/v1/responses",
  calls: ({ command, note }) => [
    ["exec_command", { cmd: "cat greeting.txt" }],
    ["exec_command", {
      cmd: "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: greeting.txt\n@@\n-Hello, wrold!\n+Hello, world!\n*** End Patch\nEOF\n",
    }],
    ["exec_command", { cmd: command }],
    ["mcp__notes__record", note],
  ],
  prepare: ({ home, url, mcp }) => {
    const text = (value) => JSON.stringify(value);
    write(join(home, ".codex/config.toml"), `
model = "scripted"
model_provider = "doorbell"
check_for_update_on_startup = false
[model_providers.doorbell]
name = "doorbell"
base_url = "${url}/v1"
wire_api = "responses"
[analytics]
enabled = false
[features]
plugins = false
remote_plugin = false
apps = false
[mcp_servers.notes]
command = ${text(mcp.command)}
args = ${text(mcp.args)}
`);
    return {
      env: { CODEX_HOME: join(home, ".codex") },
      args: ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", PROMPT],
    };
  },
};

const qwen = {
  name: "qwen",
  program: ".bin/qwen",
  template: "tags",
  path: "/v1/chat/completions",
  calls: ({ file, command, note }) => [
    ["read_file", { file_path: file }],
    ["edit", { file_path: file, old_string: "wrold", new_string: "world" }],
    ["run_shell_command", { command, is_background: false, description: "Writes it in capitals" }],
    ["mcp__notes__record", note],
  ],
  prepare: ({ home, url, mcp }) => {
    write(join(home, ".qwen/settings.json"), {
      mcpServers: { notes: { ...mcp, trust: true } },
      privacy: { usageStatisticsEnabled: false },
      telemetry: { enabled: false },
      general: { enableAutoUpdate: false },
      security: { auth: { selectedType: "openai" } },
    });
    return {
      env: { OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: "none", OPENAI_MODEL: "scripted" },
      args: ["--yolo", "--auth-type", "openai", PROMPT],
    };
  },
};

const opencode = {
  name: "opencode",
  // the baseline needs no AVX2
  program: `opencode-linux-${process.arch === "x64" ? "x64-baseline" : process.arch}/bin/opencode`,
  template: "objects",
  path: "/v1/chat/completions",
  // it fetches a package for plugins, which no setting turns off, and works without it
  refused: ["registry.npmjs.org:443"],
  calls: ({ file, command, note }) => [
    ["read", { filePath: file }],
    ["edit", { filePath: file, oldString: "wrold", newString: "world" }],
    ["bash", { command, description: "Writes it in capitals" }],
    ["notes_record", note],
  ],
  prepare: ({ home, url, mcp }) => {
    write(join(home, ".config/opencode/opencode.json"), {
      autoupdate: false,
      share: "disabled",
      model: "doorbell/scripted",
      small_model: "doorbell/scripted",
      provider: {
        doorbell: {
          npm: "@ai-sdk/openai-compatible", name: "doorbell",
          options: { baseURL: `${url}/v1`, apiKey: "none" },
          models: { scripted: { name: "scripted", tool_call: true, limit: { context: 262144, output: 8192 } } },
        },
      },
      mcp: { notes: { type: "local", command: [mcp.command, ...mcp.args], enabled: true } },
    });
    return {
      env: {
        OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
        OPENCODE_DISABLE_DEFAULT_PLUGINS: "1", OPENCODE_DISABLE_SHARE: "1",
      },
      args: ["run", "--auto", PROMPT],
    };
  },
};

export const AGENTS = [claude, codex, qwen, opencode];
