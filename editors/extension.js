// Starts the language server of Plyfs for descriptions in FiST.

const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const command = workspace.getConfiguration("fist").get("command");
  const server = { command, args: ["fist", "lsp"] };
  client = new LanguageClient("fist", "FiST", server, { documentSelector: [{ language: "fist" }] });
  return client.start();
};

exports.deactivate = () => client?.stop();
