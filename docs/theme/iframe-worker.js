// A page in a folder (file://) may start no worker. Search is one: there it runs in a hidden frame of the page.
// Material asks for a script of this name, and takes it from the network where it is not given (`extra.polyfills`).
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.document.open();
      this.inside.document.write("<!DOCTYPE html><title>search</title>");
      this.inside.document.close();
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = this.inside.document.createElement("script");
      script.src = new URL(url, document.baseURI);
      this.started = new Promise((resolve) => (script.onload = resolve));
      this.inside.document.head.append(script);
    }

    postMessage(data) {
      this.started.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
