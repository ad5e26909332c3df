"""What the HTTP application is made of: requests, answers, documents, verbs and watches."""
